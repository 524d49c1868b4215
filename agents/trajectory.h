// One trajectory as a method sees it: its task and settings, and the two things it can do, ask and attempt.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "agents/config.h"
#include "agents/evaluations.h"
#include "agents/progress.h"
#include "agents/prompt.h"
#include "agents/suite.h"
#include "evaluator/verdict.h"
#include "llm/client.h"
#include "transitions/store.h"

namespace anneal::agents {

// What all trajectories of a run share. Lives on the loop, outlives them.
struct Services {
  transitions::Store& store;
  llm::Client& llm;
  Evaluations& evaluations;
  const Prompts& prompts;
  Progress& progress;
  std::string experiment;     // its name: part of every id
  bool retry_errors = false;  // ask again where the last answer was an api_error
  Budget budget;
  long long tokens_before = 0;                                  // spent by earlier runs
  std::optional<std::chrono::steady_clock::time_point> end_at;  // budget.hours
  bool budget_spent = false;
  std::string uncounted_model;       // its server sends no token counts, though budget.tokens is set
  std::optional<Error> store_error;  // the store failed: nothing can go on
};

// One attempt with its verdict.
struct Attempt {
  transitions::AttemptRow row;
  std::optional<evaluator::Verdict> verdict;  // empty: there was no kernel to judge
  std::string reflection;                     // filled by methods that reflect

  bool has_code() const { return verdict.has_value(); }
  bool accepted() const { return verdict.has_value() && verdict->accepted; }
};

struct AttemptPlan {
  int iteration = 0;
  int slot = 0;
  std::string role;                  // generator | optimizer
  std::string mode;                  // fresh | debug | optimise
  std::vector<std::string> parents;  // attempt ids
  std::vector<llm::Message> messages;
};

class Trajectory {
 public:
  Trajectory(Services& services, Task task, MethodConfig method, llm::ModelConfig model, int seed);

  const Task& task() const { return task_; }
  const MethodConfig& method() const { return method_; }
  int seed() const { return seed_; }
  const std::string& id() const { return id_; }
  // The row to put before it runs: `settings_json` holds what may not change under an existing trajectory.
  transitions::TrajectoryRow row(const std::string& device) const;

  // A prompt of this method: its system message (common/system) and `name`, which sees `data` and the task's and
  // device's facts (task, signature, entry, description, precision, device_text, ...).
  Result<std::vector<llm::Message>> prompt(const std::string& name, nlohmann::json data) const;

  // Asks the model. `sample` is 0, or higher where a reply is asked for once more.
  boost::asio::awaitable<Result<llm::Reply>> complete(std::string role, int iteration, int slot, int sample,
                                                      std::vector<llm::Message> messages);

  // Asks for a kernel, classes the reply, has the kernel judged and keeps the attempt; or finds all that in the store.
  // Replies without a kernel are attempts too. An Error leaves nothing behind that would keep a later run from doing
  // it.
  boost::asio::awaitable<Result<Attempt>> attempt(AttemptPlan plan);

  // api_error attempts so far: missing data, for which the trajectory is not "done".
  int lost_replies() const { return lost_replies_; }
  const std::string& last_api_error() const { return last_api_error_; }

 private:
  bool budget_is_spent() const;
  std::string attempt_id(int iteration, int slot, int sample) const;
  std::string call_id(const std::string& role, int iteration, int slot, int sample) const;
  nlohmann::json attempt_event(const Attempt& attempt) const;
  boost::asio::awaitable<Result<Attempt>> load(transitions::AttemptRow row);

  Services& services_;
  Task task_;
  MethodConfig method_;
  llm::ModelConfig model_;
  int seed_;
  std::string id_;
  int lost_replies_ = 0;
  bool asked_again_ = false;  // an api_error of it was asked for again: prompts behind it may differ from stored ones
  std::string last_api_error_;
};

}  // namespace anneal::agents
