#include "evaluator/verdict.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "evaluator/whole_number.h"

namespace anneal::evaluator {

using nlohmann::json;

namespace {

// JSON has no NaN and no infinity: they are written as strings, so that "expected NaN" survives.
json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double number_from(const json& value) {
  if (!value.is_string()) return value.get<double>();
  const auto& text = value.get_ref<const std::string&>();
  if (text == "inf") return HUGE_VAL;
  if (text == "-inf") return -HUGE_VAL;
  return std::nan("");
}

json optional_number(const std::optional<double>& value) { return value ? number(*value) : json(nullptr); }

std::optional<double> optional_number_from(const json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || at->is_null()) return std::nullopt;
  return number_from(*at);
}

std::optional<int> optional_int_from(const json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || at->is_null()) return std::nullopt;
  return whole_number<int>(*at);
}

template <class T>
json optional_value(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json interval(const Interval& value) { return json::array({number(value.lo), number(value.hi)}); }
Interval interval_from(const json& value) { return {number_from(value.at(0)), number_from(value.at(1))}; }

json case_to_json(const CaseVerdict& value) {
  json worst = json::array();
  for (const WorstElement& element : value.worst) {
    worst.push_back({{"index", element.index}, {"expected", number(element.expected)}, {"got", number(element.got)}});
  }
  return {{"name", value.name},
          {"inputs", value.inputs},
          {"held_out", value.held_out},
          {"ok", value.ok},
          {"strict_ok", value.strict_ok},
          {"class", value.failure_class},
          {"message", value.message},
          {"max_abs", optional_number(value.max_abs)},
          {"max_rel", optional_number(value.max_rel)},
          {"cosine", optional_number(value.cosine)},
          {"l1_relative", optional_number(value.l1_relative)},
          {"rmse", optional_number(value.rmse)},
          {"scheme_distance", optional_number(value.scheme_distance)},
          {"wrong_share", optional_number(value.wrong_share)},
          {"worst", worst}};
}

CaseVerdict case_from_json(const json& object) {
  CaseVerdict value;
  object.at("name").get_to(value.name);
  object.at("inputs").get_to(value.inputs);
  value.held_out = object.value("held_out", false);
  object.at("ok").get_to(value.ok);
  object.at("strict_ok").get_to(value.strict_ok);
  object.at("class").get_to(value.failure_class);
  object.at("message").get_to(value.message);
  value.max_abs = optional_number_from(object, "max_abs");
  value.max_rel = optional_number_from(object, "max_rel");
  value.cosine = optional_number_from(object, "cosine");
  value.l1_relative = optional_number_from(object, "l1_relative");
  value.rmse = optional_number_from(object, "rmse");
  value.scheme_distance = optional_number_from(object, "scheme_distance");
  value.wrong_share = optional_number_from(object, "wrong_share");
  for (const json& element : object.at("worst")) {
    value.worst.push_back({whole_numbers<std::int64_t>(element.at("index")), number_from(element.at("expected")),
                           number_from(element.at("got"))});
  }
  return value;
}

json perf_case_to_json(const PerfCase& value) {
  return {{"name", value.name},
          {"baseline_ns", value.baseline_ns},
          {"candidate_ns", value.candidate_ns},
          {"speedup", value.speedup},
          {"ci", interval(value.ci)},
          {"quads", value.quads},
          {"discarded", value.discarded},
          {"bytes", optional_number(value.bytes)},
          {"flops", optional_number(value.flops)}};
}

PerfCase perf_case_from_json(const json& object) {
  PerfCase value;
  object.at("name").get_to(value.name);
  value.baseline_ns = number_from(object.at("baseline_ns"));
  value.candidate_ns = number_from(object.at("candidate_ns"));
  value.speedup = number_from(object.at("speedup"));
  value.ci = interval_from(object.at("ci"));
  value.quads = whole_number<int>(object.at("quads"));
  value.discarded = whole_number<int>(object.at("discarded"));
  value.bytes = optional_number_from(object, "bytes");
  value.flops = optional_number_from(object, "flops");
  return value;
}

json perf_to_json(const PerfVerdict& value) {
  json cases = json::array();
  for (const PerfCase& one : value.cases) cases.push_back(perf_case_to_json(one));
  return {{"status", value.status},
          {"reason", value.reason},
          {"speedup", optional_number(value.speedup)},
          {"speedup_geomean", optional_number(value.speedup_geomean)},
          {"ci", value.ci ? interval(*value.ci) : json(nullptr)},
          {"verdict", value.verdict},
          {"cases", cases},
          {"gbps", optional_number(value.gbps)},
          {"tflops", optional_number(value.tflops)},
          {"iou", optional_number(value.iou)},
          {"mfu", optional_number(value.mfu)},
          {"iou_measured_peak", optional_number(value.iou_measured_peak)},
          {"mfu_measured_peak", optional_number(value.mfu_measured_peak)},
          {"seconds", value.seconds}};
}

PerfVerdict perf_from_json(const json& object) {
  PerfVerdict value;
  object.at("status").get_to(value.status);
  object.at("reason").get_to(value.reason);
  value.speedup = optional_number_from(object, "speedup");
  value.speedup_geomean = optional_number_from(object, "speedup_geomean");
  if (!object.at("ci").is_null()) value.ci = interval_from(object.at("ci"));
  object.at("verdict").get_to(value.verdict);
  for (const json& one : object.at("cases")) value.cases.push_back(perf_case_from_json(one));
  value.gbps = optional_number_from(object, "gbps");
  value.tflops = optional_number_from(object, "tflops");
  value.iou = optional_number_from(object, "iou");
  value.mfu = optional_number_from(object, "mfu");
  value.iou_measured_peak = optional_number_from(object, "iou_measured_peak");
  value.mfu_measured_peak = optional_number_from(object, "mfu_measured_peak");
  object.at("seconds").get_to(value.seconds);
  return value;
}

json kernel_to_json(const KernelFacts& value) {
  json kernels = json::array();
  for (const LaunchedKernel& one : value.kernels) {
    kernels.push_back({{"name", one.name},
                       {"registers", optional_value(one.registers)},
                       {"spills", optional_value(one.spills)},
                       {"shared_bytes", optional_value(one.shared_bytes)}});
  }
  return {
      {"launches", value.launches}, {"kernels", kernels}, {"own_time_share", optional_number(value.own_time_share)}};
}

KernelFacts kernel_from_json(const json& object) {
  KernelFacts value;
  value.launches = whole_number<int>(object.at("launches"));
  for (const json& one : object.at("kernels")) {
    value.kernels.push_back({one.at("name").get<std::string>(), optional_int_from(one, "registers"),
                             optional_int_from(one, "spills"), optional_int_from(one, "shared_bytes")});
  }
  value.own_time_share = optional_number_from(object, "own_time_share");
  return value;
}

}  // namespace

std::string policy_shown(const Verdict& verdict) {
  return verdict.policy.ok && !verdict.exe.strict_ok ? "not_run" : verdict.policy.failure_class;
}

json verdict_to_json(const Verdict& verdict) {
  json cases = json::array();
  for (const CaseVerdict& one : verdict.exe.cases) cases.push_back(case_to_json(one));
  return {{"task", verdict.task},
          {"category", verdict.category},
          {"suite", verdict.suite},
          {"code_sha256", verdict.code_sha256},
          {"device", verdict.device},
          {"device_name", verdict.device_name},
          {"settings_sha256", verdict.settings_sha256},
          {"draw", verdict.draw},
          {"call",
           {{"ok", verdict.call.ok},
            {"class", verdict.call.failure_class},
            {"message", verdict.call.message},
            {"seconds", verdict.call.seconds}}},
          {"exe",
           {{"ok", verdict.exe.ok},
            {"strict_ok", verdict.exe.strict_ok},
            {"class", verdict.exe.failure_class},
            {"message", verdict.exe.message},
            {"cases", cases},
            {"deterministic", optional_value(verdict.exe.deterministic)},
            {"seconds", verdict.exe.seconds}}},
          {"perf", perf_to_json(verdict.perf)},
          {"policy",
           {{"ok", verdict.policy.ok}, {"class", verdict.policy.failure_class}, {"message", verdict.policy.message}}},
          {"accepted", verdict.accepted},
          {"kernel", kernel_to_json(verdict.kernel)},
          {"flags", verdict.flags},
          {"feedback", verdict.feedback}};
}

Verdict verdict_from_json(const json& object) {
  Verdict verdict;
  object.at("task").get_to(verdict.task);
  object.at("category").get_to(verdict.category);
  object.at("suite").get_to(verdict.suite);
  object.at("code_sha256").get_to(verdict.code_sha256);
  object.at("device").get_to(verdict.device);
  object.at("device_name").get_to(verdict.device_name);
  object.at("settings_sha256").get_to(verdict.settings_sha256);
  object.at("draw").get_to(verdict.draw);
  const json& call = object.at("call");
  call.at("ok").get_to(verdict.call.ok);
  call.at("class").get_to(verdict.call.failure_class);
  call.at("message").get_to(verdict.call.message);
  call.at("seconds").get_to(verdict.call.seconds);
  const json& exe = object.at("exe");
  exe.at("ok").get_to(verdict.exe.ok);
  exe.at("strict_ok").get_to(verdict.exe.strict_ok);
  exe.at("class").get_to(verdict.exe.failure_class);
  exe.at("message").get_to(verdict.exe.message);
  for (const json& one : exe.at("cases")) verdict.exe.cases.push_back(case_from_json(one));
  if (const auto at = exe.find("deterministic"); at != exe.end() && !at->is_null()) {
    verdict.exe.deterministic = at->get<bool>();
  }
  exe.at("seconds").get_to(verdict.exe.seconds);
  verdict.perf = perf_from_json(object.at("perf"));
  const json& policy = object.at("policy");
  policy.at("ok").get_to(verdict.policy.ok);
  policy.at("class").get_to(verdict.policy.failure_class);
  policy.at("message").get_to(verdict.policy.message);
  object.at("accepted").get_to(verdict.accepted);
  verdict.kernel = kernel_from_json(object.at("kernel"));
  object.at("flags").get_to(verdict.flags);
  object.at("feedback").get_to(verdict.feedback);
  return verdict;
}

}  // namespace anneal::evaluator
