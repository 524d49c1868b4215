// What the orchestrator asks of a judge. The real one is Client (client.h), which talks to anneal-evald; tests use a
// table of verdicts.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <vector>

#include "async/result.h"
#include "evaluator/verdict.h"

namespace anneal::evaluator {

struct EvaluationRequest {
  std::string task;      // task id in the suite, e.g. "gelu_bf16"
  std::string category;  // the task's, for the verdict on code that no daemon sees (too_long)
  std::string code;      // the whole Python source of the candidate
  std::vector<std::string> stages = {"call", "exe", "perf"};
  // Judge exe and perf of kernels that the policy refuses (to compare with published figures).
  bool policy_off = false;
};

// What a daemon says of itself in its hello frame.
struct DeviceFacts {
  std::string device;       // "cpu", "cuda:0"
  std::string device_name;  // "NVIDIA H200"; for cpu the interpreter and its target, "triton interpreter, sm_90"
  std::string torch, triton, python, driver;
  std::string sandbox;                 // "full" or what is missing
  std::string settings_sha256;         // of everything that a verdict depends on beside task, code and draw
  int jobs = 1;                        // evaluations it takes at once
  long long candidate_memory_mib = 0;  // of the host's memory that one kernel's processes may hold; 0: not told
};

class Judge {
 public:
  virtual ~Judge() = default;
  // One verdict. An Error means the *machine* failed (daemon lost, device gone): the attempt is neither pass nor fail.
  // Safe to call from many coroutines of one loop at once; requests beyond `jobs` wait their turn in order.
  virtual boost::asio::awaitable<Result<Verdict>> evaluate(EvaluationRequest request) = 0;
  virtual const DeviceFacts& facts() const = 0;
  // Whether every evaluation from now on will be an Error.
  virtual bool lost() const { return false; }
};

}  // namespace anneal::evaluator
