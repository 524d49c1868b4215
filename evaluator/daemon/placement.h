// The arguments of one call as they lie in an arena.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "evaluator/daemon/arena.h"
#include "evaluator/daemon/suite_task.h"
#include "evaluator/daemon/tensors.h"

namespace anneal::evaluator {

struct PlacedArguments {
  std::vector<Argument> arguments;    // as drawn: the judge's own copies
  std::vector<TensorLayout> layouts;  // where each tensor lies; of a plain value: empty
  nlohmann::json described;           // what the candidate is told (tensors.h)

  // The arena's own memory of argument `i`, a tensor. device: -1 for the CPU.
  at::Tensor in(Arena& arena, std::size_t i, int device) const;
  // All of them over the arena's memory. Baseline and candidate read the same memory: pages of another allocation alone
  // made up to 1.3 % (docs/measurements.md).
  std::vector<Argument> all_in(Arena& arena, int device) const;
};

// Most slots of arena_alignment that place() may shift by.
inline constexpr std::size_t most_shift = 16;

// Bytes of an arena that arguments need, wherever place() puts them.
std::size_t room_for(const std::vector<Argument>& arguments);

// Copies the arguments into the arena from byte `base` on, behind `shift` slots (below most_shift; drawn anew, so that
// no address repeats), with poison between them. Each lies as many bytes behind a multiple of 16 as it did when drawn.
PlacedArguments place(Arena& arena, std::vector<Argument> arguments, std::size_t base, std::size_t shift, int device);

// Elements of the largest tensor; 0 without one.
std::int64_t largest_of(const std::vector<Argument>& arguments);

}  // namespace anneal::evaluator
