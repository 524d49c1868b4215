// What a candidate gave back, before its values are looked at: structure first, then the bytes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "evaluator/daemon/candidate_handle.h"
#include "evaluator/daemon/compare.h"
#include "evaluator/daemon/placement.h"
#include "evaluator/daemon/suite_task.h"

namespace anneal::evaluator {

struct Answer {
  std::vector<at::Tensor> outputs;  // the judge's own copies
  std::string failure_class;        // empty, or wrong_shape | wrong_dtype | aliased | mutated_input: no outputs then
  std::string message;

  bool refused() const { return !failure_class.empty(); }
};

// `reply` is the candidate's answer to a call on `placed`, which still lies in its arena. The tensors that it describes
// must have number, type, shape, dtype and device of `expected`, must not overlap themselves or share memory with an
// input, and the inputs must be as they were drawn. Then they are copied out, the arguments changed in place behind
// them. device: -1 for the CPU; seconds: the deadline for handing them over. Throws CandidateLost, MachineFault.
Answer collect(CandidateHandle& candidate, const nlohmann::json& reply, const PlacedArguments& placed,
               const std::vector<Expected>& expected, SuiteTask& task, int device, double seconds);

}  // namespace anneal::evaluator
