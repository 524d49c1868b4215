// Runs an experiment: every trajectory that its configuration asks for and that is not done yet, at once.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <vector>

#include "agents/config.h"
#include "agents/progress.h"
#include "agents/prompt.h"
#include "agents/suite.h"
#include "async/result.h"
#include "evaluator/judge.h"
#include "llm/client.h"
#include "transitions/store.h"

namespace anneal::agents {

struct PlannedTrajectory {
  Task task;
  MethodConfig method;
  llm::ModelConfig model;
  int seed = 0;
};

struct Shard {
  int index = 1;  // 1..count
  int count = 1;
};

// tasks x methods x seeds, by task, then as configured. Shard i of n has the tasks whose place is i-1 modulo n, so that
// all trajectories of a task, which share verdicts, lie in one file.
std::vector<PlannedTrajectory> plan_trajectories(const ExperimentConfig& config, const std::vector<Task>& tasks,
                                                 Shard shard);

struct RunOptions {
  bool retry_errors = false;
  long long tokens_before = 0;  // spent by earlier runs of this experiment
  std::string uncounted_model;  // with budget.tokens: a model that answered without token counts in an earlier run
  std::string software_json = "{}";
};

struct RunSummary {
  int planned = 0;
  int found_done = 0;  // done by an earlier run
  int done = 0;        // by this one
  int failed = 0;
  long long attempts = 0, judged = 0, verdicts_found = 0;
  long long lost_replies = 0;         // api_error attempts of the trajectories that this run went through
  std::vector<std::string> failures;  // one line each: the trajectory and why
  bool budget_spent = false;
  std::string uncounted_model;  // budget.tokens could not be kept: this model's server sends no token counts
};

// What it needs lives on one loop and outlives run().
struct Engine {
  transitions::Store& store;
  llm::Client& llm;
  evaluator::Judge& judge;
  const Prompts& prompts;
  Progress& progress;
};

// Runs `plan` with at most 256 trajectories at a time. An Error means that nothing can go on (the store failed, or an
// existing trajectory ran with other settings, which names the key). Trajectories that fail are counted in the summary,
// and the next run does them again. Cancellation throws operation_aborted; what is stored by then is kept.
boost::asio::awaitable<Result<RunSummary>> run_experiment(Engine engine, ExperimentConfig config,
                                                          std::vector<PlannedTrajectory> plan, RunOptions options);

// The id of a device's row: of what it is and what verdicts on it depend on.
transitions::DeviceRow device_row(const evaluator::DeviceFacts& facts);

}  // namespace anneal::agents
