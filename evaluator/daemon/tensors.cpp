#include "evaluator/daemon/tensors.h"

#include <array>
#include <limits>
#include <stdexcept>
#include <utility>

#include "evaluator/daemon/gpu.h"
#include "evaluator/whole_number.h"

namespace anneal::evaluator {

namespace {
constexpr std::array<std::pair<const char*, at::ScalarType>, 12> names = {{{"float64", at::kDouble},
                                                                           {"float32", at::kFloat},
                                                                           {"float16", at::kHalf},
                                                                           {"bfloat16", at::kBFloat16},
                                                                           {"int64", at::kLong},
                                                                           {"int32", at::kInt},
                                                                           {"int16", at::kShort},
                                                                           {"int8", at::kChar},
                                                                           {"uint8", at::kByte},
                                                                           {"bool", at::kBool},
                                                                           {"complex64", at::kComplexFloat},
                                                                           {"complex128", at::kComplexDouble}}};
constexpr std::int64_t max_elements = std::int64_t{1} << 40;
}  // namespace

std::string dtype_name(at::ScalarType dtype) {
  for (const auto& [name, type] : names) {
    if (type == dtype) return name;
  }
  return at::toString(dtype);
}

at::ScalarType dtype_from_name(const std::string& name) {
  for (const auto& [known, type] : names) {
    if (name == known) return type;
  }
  throw std::invalid_argument("dtype " + name);
}

std::int64_t TensorLayout::span() const {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return 0;
    last += (shape[i] - 1) * strides[i];
  }
  return last + 1;
}

TensorLayout layout_of(const at::Tensor& tensor) {
  return {tensor.scalar_type(), tensor.sizes().vec(), tensor.strides().vec(), 0};
}

nlohmann::json layout_to_json(const TensorLayout& layout) {
  return {{"kind", "tensor"},
          {"dtype", dtype_name(layout.dtype)},
          {"shape", layout.shape},
          {"strides", layout.strides},
          {"offset", layout.offset}};
}

TensorLayout layout_from_json(const nlohmann::json& object, std::size_t arena_bytes) {
  TensorLayout layout;
  try {
    layout.dtype = dtype_from_name(object.at("dtype").get<std::string>());
    layout.shape = whole_numbers<std::int64_t>(object.at("shape"));
    layout.strides = whole_numbers<std::int64_t>(object.at("strides"));
    layout.offset = whole_number<std::size_t>(object.at("offset"));
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(error.what());
  }
  if (layout.shape.size() != layout.strides.size() || layout.shape.size() > 16) throw std::invalid_argument("rank");
  std::int64_t elements = 1;
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    if (layout.shape[i] < 0 || layout.strides[i] < 0 || layout.strides[i] > max_elements)
      throw std::invalid_argument("shape");
    if (layout.shape[i] > max_elements ||
        __builtin_mul_overflow(elements, std::max<std::int64_t>(layout.shape[i], 1), &elements) ||
        elements > max_elements) {
      throw std::invalid_argument("size");
    }
  }
  __int128 last = 0;
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    last += static_cast<__int128>(std::max<std::int64_t>(layout.shape[i] - 1, 0)) * layout.strides[i];
  }
  if (last >= max_elements || layout.offset > arena_bytes || layout.bytes() > arena_bytes - layout.offset) {
    throw std::invalid_argument("extent");
  }
  return layout;
}

at::Device torch_device(int device) {
  if (gpu::in_host_memory(device)) return at::kCPU;
  return {at::kCUDA, static_cast<at::DeviceIndex>(device)};
}

at::Tensor tensor_at(std::byte* arena, const TensorLayout& layout, int device) {
  return at::from_blob(arena + layout.offset, layout.shape, layout.strides,
                       at::TensorOptions().dtype(layout.dtype).device(torch_device(device)));
}

at::Tensor flat_span(const at::Tensor& tensor) {
  return at::as_strided(tensor, {layout_of(tensor).span()}, {1}, tensor.storage_offset());
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  if (a.numel() == 0) return true;
  return at::equal(a.contiguous().flatten().view(at::kByte), b.contiguous().flatten().view(at::kByte));
}

}  // namespace anneal::evaluator
