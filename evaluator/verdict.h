// The verdict of one evaluation: plain values, as they cross the wire, lie in the store and stand in results.jsonl.
// Keys of the JSON form are those of docs/interface.md ("One result"). An absent optional means "not measured" and is
// written as null.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace anneal::evaluator {

// 99 % interval unless said otherwise; same unit as the value it belongs to.
struct Interval {
  double lo = 0;
  double hi = 0;
};

struct WorstElement {
  std::vector<std::int64_t> index;
  double expected = 0;
  double got = 0;
};

struct CaseVerdict {
  std::string name;
  std::string inputs;         // "standard" | "outlier" | "perf" (a perf case's values, judged before it is timed)
  bool held_out = false;      // judged, but never told to a model
  bool ok = false;            // the published rule
  bool strict_ok = false;     // the fp64 error-ratio rule
  std::string failure_class;  // "ok", or a class of docs/metrics.md; JSON key "class"
  std::string message;
  std::optional<double> max_abs, max_rel, cosine, l1_relative, rmse;
  std::optional<double> scheme_distance;  // quantization: of the task's own scheme, in units of the scheme's error
  std::optional<double> wrong_share;      // share of elements outside the published tolerance, 0..1
  std::vector<WorstElement> worst;
};

struct CallVerdict {
  bool ok = false;
  std::string failure_class = "not_run";  // "ok" when passed; JSON key "class"
  std::string message;
  double seconds = 0;
};

struct ExeVerdict {
  bool ok = false;
  bool strict_ok = false;
  std::string failure_class = "not_run";  // JSON key "class"
  std::string message;
  std::vector<CaseVerdict> cases;
  std::optional<bool> deterministic;
  double seconds = 0;
};

struct PerfCase {
  std::string name;
  double baseline_ns = 0;
  double candidate_ns = 0;
  double speedup = 0;  // baseline / candidate, median of paired ratios
  Interval ci;
  int quads = 0;
  int discarded = 0;
  std::optional<double> bytes, flops;  // of the reference semantics
};

struct PerfVerdict {
  std::string status = "skipped";  // measured | not_measured | skipped | rejected
  std::string reason;
  std::optional<double> speedup;          // sum of baseline / sum of candidate over the cases (published rule)
  std::optional<double> speedup_geomean;  // geometric mean of per-case ratios
  std::optional<Interval> ci;             // of `speedup`
  std::string verdict;                    // FAST | SAME | SLOW | AMBIGUOUS, empty when not measured
  std::vector<PerfCase> cases;
  std::optional<double> gbps, tflops, iou, mfu, iou_measured_peak, mfu_measured_peak;
  double seconds = 0;
};

struct PolicyVerdict {
  bool ok = true;
  std::string failure_class = "ok";  // JSON key "class"
  std::string message;
};

struct LaunchedKernel {
  std::string name;
  std::optional<int> registers, spills, shared_bytes;
};

struct KernelFacts {
  int launches = 0;  // Triton launches seen during the first case
  std::vector<LaunchedKernel> kernels;
  std::optional<double> own_time_share;
};

struct Verdict {
  std::string task, category, suite, code_sha256, device, device_name, settings_sha256;
  std::string draw;  // hex; inputs depend on (suite, task, case, draw) alone
  CallVerdict call;
  ExeVerdict exe;
  PerfVerdict perf;
  PolicyVerdict policy;
  bool accepted = false;  // call ok, strict_ok, policy ok
  KernelFacts kernel;
  std::vector<std::string> flags;
  std::string feedback;  // text for the next prompt
};

// What a person is shown of the policy: its class, or "not_run" where it was not asked. It is asked of kernels that are
// right; of others it says "ok" unless it refused them for a case that is.
std::string policy_shown(const Verdict& verdict);

// The inverse of each other: from_json(to_json(v)) == v field by field. `verdict_from_json` throws
// nlohmann::json::exception on a wrong shape.
nlohmann::json verdict_to_json(const Verdict& verdict);
Verdict verdict_from_json(const nlohmann::json& json);

}  // namespace anneal::evaluator
