// Whether a task is fit to judge with: its reference right, its inputs what they are called, and no null answer right.
#pragma once

#include <string>

#include "evaluator/daemon/suite_task.h"
#include "evaluator/lint_report.h"

namespace anneal::evaluator {

// Runs the task's Python functions in this process. `device`: "cpu" or "cuda:N". What the task file raises is a
// finding. docs/metrics.md ("Lint") states each check. Throws MachineFault only when no entropy is to be had.
LintReport lint_task(SuiteTask& task, const std::string& id, const std::string& device);

}  // namespace anneal::evaluator
