#include "evaluator/daemon/feedback.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace anneal::evaluator {

namespace {

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

void describe_case(std::ostringstream& text, const CaseVerdict& one) {
  text << "case " << one.name << " (" << one.inputs << " inputs): " << one.failure_class << ": " << one.message << '\n';
  for (const WorstElement& element : one.worst) {
    text << "  at [";
    for (std::size_t i = 0; i < element.index.size(); ++i) text << (i > 0 ? ", " : "") << element.index[i];
    text << "]: expected " << short_number(element.expected) << ", got " << short_number(element.got) << '\n';
  }
}

void describe_perf(std::ostringstream& text, const PerfVerdict& perf) {
  if (perf.status != "measured") {
    text << "speed: not measured (" << perf.reason << ")\n";
    return;
  }
  text << "speed: " << short_number(*perf.speedup) << "x of PyTorch eager over all cases, 99 % interval ["
       << short_number(perf.ci->lo) << ", " << short_number(perf.ci->hi) << "], " << perf.verdict << '\n';
  for (const PerfCase& one : perf.cases) {
    text << "  " << one.name << ": " << short_number(one.candidate_ns / 1000) << " us against "
         << short_number(one.baseline_ns / 1000) << " us, " << short_number(one.speedup) << "x";
    if (one.bytes && one.candidate_ns > 0) text << ", " << short_number(*one.bytes / one.candidate_ns) << " GB/s";
    text << '\n';
  }
}

}  // namespace

std::string feedback_text(const Verdict& verdict, const std::string& detail) {
  constexpr std::size_t most_cases = 3;
  std::ostringstream text;
  if (!verdict.call.ok) {
    text << "call failed: " << verdict.call.failure_class << ": " << verdict.call.message << '\n';
    if (!detail.empty()) text << detail << '\n';
    return text.str();
  }
  if (verdict.exe.failure_class == "not_run") {
    text << "call passed; values were not judged\n";
    return text.str();
  }
  const auto& cases = verdict.exe.cases;
  const auto shown = [](const CaseVerdict& one) { return !one.held_out; };
  const auto failed = [](const CaseVerdict& one) { return !one.held_out && !one.strict_ok; };
  if (!verdict.exe.strict_ok) {
    text << "exe failed: " << verdict.exe.failure_class << ": " << verdict.exe.message << '\n';
    std::size_t described = 0;
    for (const CaseVerdict& one : cases) {
      if (failed(one) && described++ < most_cases) describe_case(text, one);
    }
    text << std::count_if(cases.begin(), cases.end(), failed) << " of "
         << std::count_if(cases.begin(), cases.end(), shown) << " cases failed\n";
    if (!detail.empty()) text << detail << '\n';
    return text.str();
  }
  if (!verdict.policy.ok) {
    text << "policy failed: " << verdict.policy.failure_class << ": " << verdict.policy.message << '\n';
    return text.str();
  }
  text << "correct on all " << cases.size() << " cases\n";
  describe_perf(text, verdict.perf);
  for (const LaunchedKernel& kernel : verdict.kernel.kernels) {
    text << "kernel " << kernel.name << ":";
    if (kernel.registers) text << ' ' << *kernel.registers << " registers,";
    if (kernel.spills) text << ' ' << *kernel.spills << " spills,";
    text << ' ' << (kernel.shared_bytes ? std::to_string(*kernel.shared_bytes) : "unknown")
         << " bytes of shared memory\n";
  }
  return text.str();
}

}  // namespace anneal::evaluator
