// Tensors as they lie in an arena, described in JSON:
//   {"kind": "tensor", "dtype": "float32", "shape": [..], "strides": [..], "offset": bytes}   strides in elements
//   {"kind": "value", "value": <JSON>}
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace anneal::evaluator {

struct TensorLayout {
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape, strides;
  std::size_t offset = 0;

  // Elements from the first to the last that the strides reach; 0 for an empty tensor.
  std::int64_t span() const;
  std::size_t bytes() const { return static_cast<std::size_t>(span()) * at::elementSize(dtype); }
};

std::string dtype_name(at::ScalarType dtype);             // "float32", as torch prints it
at::ScalarType dtype_from_name(const std::string& name);  // throws std::invalid_argument

TensorLayout layout_of(const at::Tensor& tensor);
nlohmann::json layout_to_json(const TensorLayout& layout);
// Throws std::invalid_argument unless all of it lies within [0, arena_bytes): the description may be hostile.
TensorLayout layout_from_json(const nlohmann::json& object, std::size_t arena_bytes);

// Where the tensors of `device` lie: -1 is the CPU, N is cuda:N; a simulated GPU has the CPU's.
at::Device torch_device(int device);

// A tensor over the arena's own memory. device: -1 for the CPU.
at::Tensor tensor_at(std::byte* arena, const TensorLayout& layout, int device);

// The elements that `tensor`'s strides span, as a 1-D tensor over the same storage: copying it copies every stride
// pattern, overlapping ones too.
at::Tensor flat_span(const at::Tensor& tensor);

// Equal shape, dtype and bits, whatever the strides.
bool same_bytes(const at::Tensor& a, const at::Tensor& b);

inline constexpr std::size_t arena_alignment = 256;
inline std::size_t align_up(std::size_t bytes) {
  return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
}

}  // namespace anneal::evaluator
