// Answers that do none, or too little, of a task's work. A rule that takes one of them for right is no rule.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <vector>

#include "evaluator/daemon/compare.h"
#include "evaluator/daemon/suite_task.h"

namespace anneal::evaluator {

struct NullAnswer {
  std::string name;
  std::size_t output = 0;           // index into what SuiteTask::expect gives
  std::optional<at::Tensor> value;  // of that output's shape and dtype; none: not applicable, for `reason`
  std::string reason;
  bool misfit = false;  // not applicable because the answer has not the output's shape, so that the judge refuses it
  // False where honest arithmetic may come to the same on short sums: one case of the task has to refuse it.
  bool every_case = true;
};

// Null answers to one call, of each output. `arguments` are as drawn and stay so; `expected` is what they should give.
// With `rounded`, also the answers of lower precision, which run the reference again. Throws MachineFault.
std::vector<NullAnswer> null_answers(SuiteTask& task, const std::vector<Argument>& arguments,
                                     const std::vector<Expected>& expected, bool rounded);

}  // namespace anneal::evaluator
