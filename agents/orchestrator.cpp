#include "agents/orchestrator.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "agents/evaluations.h"
#include "agents/method.h"
#include "agents/text.h"
#include "agents/trajectory.h"
#include "async/nursery.h"
#include "transitions/ids.h"

namespace anneal::agents {

namespace asio = boost::asio;
using asio::awaitable;
using nlohmann::json;

namespace {

constexpr size_t most_at_once = 256;

// Counts what goes by, and passes it on.
class Counting : public Progress {
 public:
  explicit Counting(Progress& next) : next_(next) {}
  void on_event(const json& event) override {
    if (event.at("event") == "attempt") ++attempts;
    next_.on_event(event);
  }
  long long attempts = 0;

 private:
  Progress& next_;
};

// Shared by the workers of one run.
struct Run {
  Run(Services& s, Nursery& n) : services(s), nursery(n) {}

  // Nothing that is done from now on could be kept: kernels that wait to be judged are not judged in vain.
  void store_failed(const Error& error) {
    if (services.store_error) return;
    services.store_error = error;
    nursery.cancel();
  }

  Services& services;
  Nursery& nursery;
  std::vector<std::shared_ptr<Trajectory>> trajectories;
  size_t next = 0;
  RunSummary summary;
};

json event_of(const char* kind, const Trajectory& trajectory) {
  return {{"event", kind},
          {"trajectory", trajectory.id()},
          {"task", trajectory.task().id},
          {"method", trajectory.method().name},
          {"model", trajectory.method().model},
          {"seed", trajectory.seed()}};
}

// The method, with what it throws turned into an Error; cancellation goes on up.
awaitable<Result<void>> run_method(const Method* method, std::shared_ptr<Trajectory> trajectory) {
  try {
    auto result = co_await method->run(trajectory);
    co_return result;
  } catch (const boost::system::system_error& error) {
    if (error.code() == asio::error::operation_aborted) throw;
    co_return fail(ErrorKind::internal, std::string(error.what()) + ".");
  } catch (const std::exception& error) {
    co_return fail(ErrorKind::internal, std::string(error.what()) + ".");
  }
}

awaitable<void> run_one(std::shared_ptr<Run> run, std::shared_ptr<Trajectory> trajectory) {
  Services& services = run->services;
  auto started = co_await services.store.put_event(trajectory->id(), "trajectory_started", "{}");
  if (!started) {
    run->store_failed(started.error());
    co_return;
  }
  services.progress.on_event(event_of("trajectory_started", *trajectory));
  auto result = co_await run_method(find_method(trajectory->method().name), trajectory);
  run->summary.lost_replies += trajectory->lost_replies();
  // A budget that is spent leaves the trajectory as it is: to be gone on with.
  if (!result && result.error().kind == ErrorKind::budget) co_return;
  if (result && trajectory->lost_replies() > 0) {
    result = fail(ErrorKind::io, count_of(trajectory->lost_replies(), "reply", "replies") +
                                     " did not arrive: " + trajectory->last_api_error());
  }
  const char* kind = result ? "trajectory_done" : "trajectory_failed";
  json event = event_of(kind, *trajectory);
  json data = json::object();
  if (result) {
    ++run->summary.done;
  } else {
    ++run->summary.failed;
    const std::string reason = clean_text(result.error().message, 2000);
    event["reason"] = reason;
    data["reason"] = reason;
    run->summary.failures.push_back(trajectory->task().id + ", " + trajectory->method().name + "@" +
                                    trajectory->method().model + ", seed " + std::to_string(trajectory->seed()) + ": " +
                                    reason);
  }
  auto ended = co_await services.store.put_event(trajectory->id(), kind, data.dump());
  if (!ended) {
    run->store_failed(ended.error());
    co_return;
  }
  services.progress.on_event(event);
}

awaitable<void> work(std::shared_ptr<Run> run) {
  while (run->next < run->trajectories.size() && !run->services.store_error && !run->services.budget_spent &&
         !run->services.evaluations.judge_lost()) {
    // Moved out, so that an ended trajectory's memory goes.
    std::shared_ptr<Trajectory> trajectory = std::move(run->trajectories[run->next++]);
    co_await run_one(run, std::move(trajectory));
  }
}

transitions::TaskRow task_row(const Task& task, const std::string& suite) {
  transitions::TaskRow row;
  row.id = task.id;
  row.suite = suite;
  row.stem = task.stem;
  row.category = task.category;
  row.precision = task.precision;
  row.signature = task.signature;
  row.description = task.description;
  row.file_sha256 = task.file_sha256;
  row.difficulty = task.difficulty;
  return row;
}

// Puts what attempts refer to. The trajectories that earlier runs have not finished go to `run`.
awaitable<Result<void>> prepare(Engine engine, const ExperimentConfig* config,
                                const std::vector<PlannedTrajectory>* plan, const RunOptions* options,
                                std::shared_ptr<Run> run) {
  transitions::Store& store = engine.store;
  const std::string experiment = transitions::make_id({config->experiment});
  auto existing = co_await store.find_experiment();
  if (!existing) co_return tl::unexpected(existing.error());
  if (*existing && (*existing)->id != experiment) {
    co_return fail(ErrorKind::bad_input, "The database holds the experiment '" + (*existing)->name + "', not '" +
                                             config->experiment + "'; choose another --db.");
  }
  transitions::ExperimentRow experiment_row;
  experiment_row.id = experiment;
  experiment_row.name = config->experiment;
  experiment_row.suite = config->suite;
  experiment_row.config_text = config->config_text;
  experiment_row.config_json = config->resolved.dump();
  experiment_row.software_json = options->software_json;
  auto put = co_await store.put_experiment(std::move(experiment_row));
  if (!put) co_return put;
  auto states = co_await store.trajectory_states();
  if (!states) co_return tl::unexpected(states.error());
  std::set<std::string> done;
  for (const auto& state : *states) {
    if (state.state == "done") done.insert(state.trajectory);
  }
  std::set<std::string> tasks;
  for (const PlannedTrajectory& planned : *plan) {
    if (tasks.insert(planned.task.id).second) {
      put = co_await store.put_task(task_row(planned.task, config->suite));
      if (!put) co_return put;
    }
    auto trajectory =
        std::make_shared<Trajectory>(run->services, planned.task, planned.method, planned.model, planned.seed);
    put = co_await store.put_trajectory(trajectory->row(config->device));
    if (!put) co_return put;
    if (done.contains(trajectory->id())) {
      ++run->summary.found_done;
    } else {
      run->trajectories.push_back(std::move(trajectory));
    }
  }
  put = co_await store.put_device(device_row(engine.judge.facts()));
  if (!put) co_return put;
  json data;
  data["config"] = config->resolved;
  data["planned"] = plan->size();
  put = co_await store.put_event(experiment, "run_started", data.dump());
  co_return put;
}

Services make_services(const Engine& engine, Evaluations& evaluations, Progress& progress,
                       const ExperimentConfig& config, const RunOptions& options) {
  Services services{.store = engine.store,
                    .llm = engine.llm,
                    .evaluations = evaluations,
                    .prompts = engine.prompts,
                    .progress = progress,
                    .experiment = config.experiment,
                    .retry_errors = options.retry_errors,
                    .budget = config.budget,
                    .tokens_before = options.tokens_before,
                    .end_at = std::nullopt,
                    .budget_spent = false,
                    .uncounted_model = options.uncounted_model,
                    .store_error = std::nullopt};
  if (config.budget.hours) {
    const std::chrono::duration<double> time(*config.budget.hours * 3600);
    services.end_at =
        std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(time);
  }
  return services;
}

}  // namespace

std::vector<PlannedTrajectory> plan_trajectories(const ExperimentConfig& config, const std::vector<Task>& tasks,
                                                 Shard shard) {
  std::vector<PlannedTrajectory> plan;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (static_cast<int>(i % static_cast<size_t>(shard.count)) != shard.index - 1) continue;
    for (const MethodConfig& method : config.methods) {
      for (int seed = 0; seed < method.seeds; ++seed) {
        PlannedTrajectory planned;
        planned.task = tasks[i];
        planned.method = method;
        planned.model = *config.find_model(method.model);
        planned.seed = seed;
        plan.push_back(std::move(planned));
      }
    }
  }
  return plan;
}

transitions::DeviceRow device_row(const evaluator::DeviceFacts& facts) {
  const json all = {{"device", facts.device},   {"device_name", facts.device_name},
                    {"torch", facts.torch},     {"triton", facts.triton},
                    {"python", facts.python},   {"driver", facts.driver},
                    {"sandbox", facts.sandbox}, {"settings_sha256", facts.settings_sha256}};
  transitions::DeviceRow row;
  row.name = facts.device;
  row.device_name = facts.device_name;
  row.facts_json = all.dump();
  row.id = transitions::make_id({"device", row.name, row.facts_json});
  return row;
}

awaitable<Result<RunSummary>> run_experiment(Engine engine, ExperimentConfig config,
                                             std::vector<PlannedTrajectory> plan, RunOptions options) {
  const auto executor = co_await asio::this_coro::executor;
  Counting progress(engine.progress);
  Evaluations evaluations(engine.store, engine.judge, device_row(engine.judge.facts()).id, config.judge_refused);
  Services services = make_services(engine, evaluations, progress, config, options);
  Nursery nursery(executor);
  auto run = std::make_shared<Run>(services, nursery);
  run->summary.planned = static_cast<int>(plan.size());
  auto prepared = co_await prepare(engine, &config, &plan, &options, run);
  if (!prepared) co_return tl::unexpected(prepared.error());
  json started;
  started["event"] = "run_started";
  started["experiment"] = config.experiment;
  started["planned"] = plan.size();
  started["found_done"] = run->summary.found_done;
  progress.on_event(started);

  const size_t workers = std::min(most_at_once, run->trajectories.size());
  for (size_t i = 0; i < workers; ++i) nursery.spawn(work(run));
  co_await nursery.join();

  RunSummary summary = std::move(run->summary);
  summary.attempts = progress.attempts;
  summary.judged = evaluations.judged();
  summary.verdicts_found = evaluations.found();
  summary.budget_spent = services.budget_spent;
  summary.uncounted_model = services.uncounted_model;
  if (services.store_error) co_return tl::unexpected(*services.store_error);
  json finished;
  finished["event"] = "run_finished";
  finished["planned"] = summary.planned;
  finished["found_done"] = summary.found_done;
  finished["done"] = summary.done;
  finished["failed"] = summary.failed;
  finished["budget_spent"] = summary.budget_spent;
  const std::string experiment = transitions::make_id({config.experiment});
  auto put = co_await engine.store.put_event(experiment, "run_finished", finished.dump());
  if (!put) co_return tl::unexpected(put.error());
  progress.on_event(finished);
  co_return summary;
}

}  // namespace anneal::agents
