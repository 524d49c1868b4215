// The summary columns of a store, in memory: what harvest and report compute from. Opens no long text.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "async/result.h"
#include "transitions/database.h"

namespace anneal::transitions {

struct AttemptRecord {
  std::string id, trajectory;
  int iteration = 0, slot = 0;
  std::string role, mode, reply_class, code_sha256, normalised_sha256, llm_call, evaluation;
  std::vector<std::string> parents;
  bool judged = false;  // has a verdict other than unsupported_on_cpu
  bool call_ok = false, exe_ok = false, strict_ok = false, policy_ok = false;
  bool correct = false;  // `accepted`
  std::string call_class, exe_class, policy_class, perf_status, perf_verdict, flags_json;
  std::optional<double> speedup, speedup_lo, speedup_hi;  // set only when perf was measured
  std::optional<double> cases_right, elements_right;      // shares, 0..1

  bool too_slow = false;  // correct, and too slow to be timed

  // Correct without a speedup, and known not to be fast all the same: too slow, or its timing was refused as
  // impossible.
  bool not_fast_untimed() const { return correct && !speedup && (too_slow || perf_status == "rejected"); }

  // Nothing where the policy was not asked: it is asked of kernels that are right.
  std::optional<bool> policy_answer() const {
    if (!judged || (policy_ok && !strict_ok)) return std::nullopt;
    return policy_ok;
  }

  // Missing data, neither pass nor fail: the API gave up, or a kernel exists that the cpu device cannot judge.
  bool missing() const { return reply_class == "api_error" || (reply_class == "ok" && !judged); }
};

struct TrajectoryRecord {
  std::string id, task, category, precision, method, model;
  int difficulty = 0, seed = 0;
  std::string state;                  // last trajectory_* event, empty when none
  std::vector<std::size_t> attempts;  // indices into Records::attempts, by (iteration, slot)
  std::int64_t calls = 0, api_errors = 0, prompt_tokens = 0, completion_tokens = 0;

  std::string state_name() const;  // not_started | unfinished (being run, or stopped) | done | failed
};

struct Records {
  std::string experiment;
  std::vector<std::string> devices;
  bool times_kernels = false;                  // one of them is not the cpu
  std::vector<TrajectoryRecord> trajectories;  // by (task, method, model, seed)
  std::vector<AttemptRecord> attempts;         // by (trajectory id, iteration, slot)
  std::map<std::string, std::size_t> attempt_index;
};

// Throws SQLite::Exception.
Records read_records(Database& db);

}  // namespace anneal::transitions
