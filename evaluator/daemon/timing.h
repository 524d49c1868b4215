// Times one perf case on a GPU: candidate against baseline in quads (pairing.h), by docs/metrics.md, "Timing".
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>

#include "evaluator/daemon/candidate_handle.h"
#include "evaluator/daemon/gpu.h"
#include "evaluator/daemon/pairing.h"
#include "evaluator/daemon/placement.h"
#include "evaluator/daemon/suite_task.h"

namespace anneal::evaluator {

// Why there is no time for a kernel that is correct; `status` is PerfVerdict's.
struct TimingStopped {
  std::string status, reason;
  bool too_slow = false;
  std::string other_work;  // as in TimedCase, of the calls until then
};

struct TimedCase {
  PairedCase paired;
  // Of the candidate's samples: how many, how many waited for the device, how many left work on other streams.
  int samples = 0, syncs = 0, side_streams = 0;
  std::string other_work;            // what did the work in a timed call, if not the candidate's kernels
  std::optional<CaseVerdict> wrong;  // the answer to a timed call was wrong: `paired` means nothing
};

struct TimingJob {
  SuiteTask& task;
  CandidateHandle& candidate;
  gpu::Timer& timer;
  int device;
  InputSet set;           // kind "perf"; draws of its own are derived from `set.draw`
  std::int64_t largest;   // elements of the largest tensor of a call
  double floor_ns;        // a claimed time below it is rejected
  double answer_seconds;  // the deadline of one question to the candidate
  PairingSettings settings;
  std::mt19937_64& random;
  // The verdict on an answer to a timed call, and whether it passes.
  std::function<CaseVerdict(const nlohmann::json& reply, const InputSet&, const PlacedArguments&)> judge;
  std::function<bool(const CaseVerdict&)> passes;
};

// Every timed call of the candidate gets inputs that it has never seen: they lie in the arena as noise until its warm
// calls are over. A random tenth of the timed answers and that of one more call are judged, so that a kernel which
// remembers what it computed is refused. The caller holds the device alone. Throws TimingStopped, CandidateLost,
// MachineFault.
TimedCase time_case(const TimingJob& job);

// Trimmed mean (pairing.h) of 16 samples of the baseline on a new draw when no candidate lives, in ns. The caller holds
// the device alone.
double time_baseline_alone(SuiteTask& task, const InputSet& set, gpu::Timer& timer, int device);

// The least time in ns in which a GPU can do a case with cold inputs: 0.9 times (bytes that the semantics require, less
// what of the output can stay in L2) at the memory's peak (docs/metrics.md): faster than that is no measurement. 0: not
// known.
double fastest_ns(const std::optional<double>& bytes, double output_bytes, const gpu::DeviceProperties& properties);

}  // namespace anneal::evaluator
