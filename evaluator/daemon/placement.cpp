#include "evaluator/daemon/placement.h"

#include <algorithm>
#include <cstdint>

#include "evaluator/daemon/gpu.h"

namespace anneal::evaluator {

using nlohmann::json;

at::Tensor PlacedArguments::in(Arena& arena, std::size_t i, int device) const {
  return tensor_at(arena.data(), layouts[i], device);
}

std::vector<Argument> PlacedArguments::all_in(Arena& arena, int device) const {
  std::vector<Argument> all = arguments;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].tensor) all[i].tensor = in(arena, i, device);
  }
  return all;
}

std::size_t room_for(const std::vector<Argument>& arguments) {
  std::size_t bytes = most_shift * arena_alignment;
  for (const Argument& one : arguments) {
    if (one.tensor) bytes += align_up(layout_of(*one.tensor).bytes()) + arena_alignment;
  }
  return bytes;
}

PlacedArguments place(Arena& arena, std::vector<Argument> arguments, std::size_t base, std::size_t shift, int device) {
  PlacedArguments placed;
  placed.layouts.resize(arguments.size());
  placed.described = json::array();
  std::size_t end = base + arena_alignment * shift;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].tensor) {
      placed.described.push_back({{"kind", "value"}, {"value", arguments[i].value}});
      continue;
    }
    TensorLayout& layout = placed.layouts[i] = layout_of(*arguments[i].tensor);
    // As far off 16 bytes as it was drawn: Triton compiles such pointers otherwise.
    layout.offset = end + reinterpret_cast<std::uintptr_t>(arguments[i].tensor->const_data_ptr()) % 16;
    end += align_up(layout.bytes()) + arena_alignment;
    placed.described.push_back(layout_to_json(layout));
  }
  arena.poison(base, end - base);
  placed.arguments = std::move(arguments);
  for (std::size_t i = 0; i < placed.arguments.size(); ++i) {
    const std::optional<at::Tensor>& tensor = placed.arguments[i].tensor;
    if (tensor && tensor->numel() != 0) flat_span(placed.in(arena, i, device)).copy_(flat_span(*tensor));
  }
  if (device >= 0) gpu::synchronise();
  return placed;
}

std::int64_t largest_of(const std::vector<Argument>& arguments) {
  std::int64_t largest = 0;
  for (const Argument& one : arguments) {
    if (one.tensor) largest = std::max(largest, one.tensor->numel());
  }
  return largest;
}

}  // namespace anneal::evaluator
