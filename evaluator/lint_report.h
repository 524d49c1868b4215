// What lint found in one task, as it crosses the wire and is printed by `anneal tasks lint --json`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace anneal::evaluator {

struct LintFinding {
  std::string check;    // "task file" | "inputs" | "reference" | "oracle" | "null answer" | "perf case"
  std::string where;    // "case rows37 (outlier), output 0", or "all cases"
  std::string message;  // what is wrong, with numbers
};

// A null answer that no case of the task can be asked with.
struct LintSkipped {
  std::string answer, reason;
};

struct LintReport {
  std::string task, device;
  std::vector<LintFinding> findings;  // empty: the task is fit to judge with
  std::vector<LintSkipped> not_applicable;
  int input_sets = 0;  // case x kind of input x draw
  int refused = 0;     // null answers that the deciding rule refused
};

nlohmann::json lint_report_to_json(const LintReport& report);
// Throws nlohmann::json::exception when `object` is no report.
LintReport lint_report_from_json(const nlohmann::json& object);

}  // namespace anneal::evaluator
