// What a candidate says of its own launches and operators. The process writes it that runs the kernel, so its shape and
// its numbers are checked here, and no verdict of right and wrong rests on it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "evaluator/verdict.h"

namespace anneal::evaluator {

struct DotClaims {
  bool integer = false;                    // some launched kernel holds a tl.dot of int8 operands
  std::string floating;                    // the name of one that holds a tl.dot of others; empty: none does
  std::optional<double> integer_products;  // pairs of numbers that the int8 ones multiplied; only the CPU counts
};

struct LaunchClaims {
  int launches = 0;  // of Triton kernels in one call of the entry
  std::vector<LaunchedKernel> kernels;
  DotClaims dots;
};

// Of `kernels` in the answer to a run. Throws nlohmann::json::exception for another shape and for numbers out of range.
LaunchClaims launch_claims(const nlohmann::json& kernels);

// What operators of torch outside `allowed` worked on a quarter or more of `largest` elements together in one call of
// the entry, by the name of the one that did most; else nothing. operators: {name: elements}. Sizes below 64 tell
// nothing. Throws nlohmann::json::exception for another shape.
std::string host_compute(const nlohmann::json& operators, std::int64_t largest,
                         const std::vector<std::string>& allowed);

}  // namespace anneal::evaluator
