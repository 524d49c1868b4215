#include "evaluator/lint_report.h"

#include <nlohmann/json.hpp>

#include "evaluator/whole_number.h"

namespace anneal::evaluator {

using nlohmann::json;

json lint_report_to_json(const LintReport& report) {
  json findings = json::array(), skipped = json::array();
  for (const LintFinding& one : report.findings) {
    findings.push_back({{"check", one.check}, {"where", one.where}, {"message", one.message}});
  }
  for (const LintSkipped& one : report.not_applicable) {
    skipped.push_back({{"answer", one.answer}, {"reason", one.reason}});
  }
  return {{"task", report.task},      {"device", report.device},   {"ok", report.findings.empty()},
          {"findings", findings},     {"not_applicable", skipped}, {"input_sets", report.input_sets},
          {"refused", report.refused}};
}

LintReport lint_report_from_json(const json& object) {
  LintReport report;
  report.task = object.at("task").get<std::string>();
  report.device = object.at("device").get<std::string>();
  for (const json& one : object.at("findings")) {
    report.findings.push_back(
        {one.at("check").get<std::string>(), one.at("where").get<std::string>(), one.at("message").get<std::string>()});
  }
  for (const json& one : object.at("not_applicable")) {
    report.not_applicable.push_back({one.at("answer").get<std::string>(), one.at("reason").get<std::string>()});
  }
  report.input_sets = whole_number<int>(object.at("input_sets"));
  report.refused = whole_number<int>(object.at("refused"));
  return report;
}

}  // namespace anneal::evaluator
