// Verdicts, each found again where the same code was judged before: in the store, or at this moment in flight. A random
// twentieth of the attempts is judged for itself, so that a report can say how often two verdicts on one code differ
// (docs/metrics.md, "Transition kinds").
#pragma once

#include <boost/asio/awaitable.hpp>
#include <map>
#include <memory>
#include <string>

#include "agents/suite.h"
#include "async/result.h"
#include "evaluator/judge.h"
#include "transitions/store.h"

namespace anneal::agents {

// Whether this attempt's code is judged for itself: one attempt in twenty, by the id alone, so that a resumed run and a
// shard choose the same ones. `attempt` is a UUID whose first eight digits are uniform.
bool judged_for_itself(const std::string& attempt);

class Evaluations {
 public:
  // `store` and `judge` outlive it. `device` is the row of the judge's device; `policy_off` as in EvaluationRequest.
  Evaluations(transitions::Store& store, evaluator::Judge& judge, std::string device, bool policy_off);

  // The stored evaluation of `code` on `task`, for the attempt of that id (empty: for none). "Same" means the same
  // normalised code, task and content of its file, device, settings and policy_off. An Error means that the machine or
  // the store failed.
  boost::asio::awaitable<Result<transitions::EvaluationRow>> evaluate(Task task, std::string code, std::string attempt);

  long long judged() const { return judged_; }
  long long found() const { return found_; }
  const evaluator::DeviceFacts& facts() const { return judge_.facts(); }
  // Whether no code can be judged any more.
  bool judge_lost() const { return judge_.lost(); }

 private:
  struct InFlight;

  boost::asio::awaitable<Result<transitions::EvaluationRow>> judge(Task task, std::string code, std::string normalised,
                                                                   std::string id);

  transitions::Store& store_;
  evaluator::Judge& judge_;
  std::string device_;
  bool policy_off_;
  long long judged_ = 0, found_ = 0;
  std::map<std::string, std::shared_ptr<InFlight>> in_flight_;  // by evaluation id
};

}  // namespace anneal::agents
