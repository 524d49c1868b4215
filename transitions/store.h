// The store of one experiment: a SQLite file (WAL, STRICT tables) with one writer thread. Rows are append-only; the
// `transition` table is derived (harvest.h). Every awaitable returns when its rows are durable.
//
// Ids are UUIDv5 of what they stand for (ids.h), so writing the same thing twice, before and after a crash, is the same
// row: a put_ of a row that is there changes nothing. Two tell more: put_task refuses another content of a task's file,
// put_trajectory other settings (and adds settings that an older version did not store). An event is new every time.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/result.h"
#include "evaluator/verdict.h"
#include "llm/exchange.h"

namespace anneal::transitions {

struct ExperimentRow {
  std::string id, name, suite;
  std::string config_text;    // the YAML as the user wrote it
  std::string config_json;    // resolved, canonical
  std::string software_json;  // versions, git revision
};

struct TaskRow {
  std::string id;  // task id within the suite, the key
  std::string suite, stem, category, precision, signature, description, file_sha256;
  int difficulty = 0;
};

struct TrajectoryRow {
  std::string id, experiment, task, method, model;
  int seed = 0;
  std::string settings_json;  // what the method ran with: iterations, candidates, sampling
};

struct DeviceRow {
  std::string id;  // UUIDv5 of name and facts
  std::string name, device_name, facts_json;
};

// One reply of a model with the kernel taken from it. Immutable.
struct AttemptRow {
  std::string id, trajectory;
  int iteration = 0;
  int slot = 0;
  std::string role;                  // generator | optimizer
  std::string mode;                  // fresh | debug | optimise
  std::vector<std::string> parents;  // attempt ids
  std::string reply_class;           // ok | empty | refusal | no_code | truncated | wrong_entry | api_error
  std::string code;                  // empty unless reply_class is ok
  std::string code_sha256;           // of `code`
  std::string normalised_sha256;     // of its normalised form
  std::string llm_call;              // request id
  std::string evaluation;            // evaluation id; empty when there is no kernel to judge
  std::string strategy;              // what the model said it was doing, when it said so
};

struct EvaluationRow {
  std::string id;
  std::string device;  // DeviceRow id
  std::string normalised_sha256;
  evaluator::Verdict verdict;
  std::string task_sha256;  // of the task's file
  bool policy_off = false;
};

// `state` of a trajectory, from its last event: "running", "done", "failed: ...".
struct TrajectoryState {
  std::string trajectory, state;
};

class Store : public llm::ExchangeStore {
 public:
  // Opens or makes the file. Clear errors for: not a database, another application's, a newer schema (names both
  // versions and says to update anneal), unwritable, locked by another run. Awaitables resume on the
  // executor of the coroutine that awaits them.
  static Result<std::unique_ptr<Store>> open(const std::filesystem::path& file);
  ~Store() override = default;

  virtual boost::asio::awaitable<Result<void>> put_experiment(ExperimentRow row) = 0;
  virtual boost::asio::awaitable<Result<void>> put_task(TaskRow row) = 0;
  // An error that names the setting when a stored trajectory of this id ran with other settings, or any of its
  // experiment on another device model or with other settings of the judge.
  virtual boost::asio::awaitable<Result<void>> put_trajectory(TrajectoryRow row) = 0;
  virtual boost::asio::awaitable<Result<void>> put_device(DeviceRow row) = 0;
  virtual boost::asio::awaitable<Result<void>> put_evaluation(EvaluationRow row) = 0;
  virtual boost::asio::awaitable<Result<void>> put_attempt(AttemptRow row) = 0;
  // kind: trajectory_started, trajectory_done, trajectory_failed, run_started, run_interrupted, ...; data is JSON.
  virtual boost::asio::awaitable<Result<void>> put_event(std::string subject, std::string kind, std::string data) = 0;

  virtual boost::asio::awaitable<Result<std::optional<ExperimentRow>>> find_experiment() = 0;
  virtual boost::asio::awaitable<Result<std::optional<AttemptRow>>> find_attempt(std::string id) = 0;
  virtual boost::asio::awaitable<Result<std::optional<EvaluationRow>>> find_evaluation(std::string id) = 0;
  virtual boost::asio::awaitable<Result<std::vector<TrajectoryState>>> trajectory_states() = 0;
  // Writes everything queued, checkpoints the WAL and closes. Nothing may be awaited after it.
  virtual boost::asio::awaitable<Result<void>> close() = 0;
};

}  // namespace anneal::transitions
