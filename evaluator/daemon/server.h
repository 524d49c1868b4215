// The daemon's conversation with the orchestrator once it has said hello: a queue of evaluations and lints and the
// threads that do them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "evaluator/daemon/judge.h"

namespace anneal::evaluator {

class Server {
 public:
  // send: one message to the orchestrator, called from several threads. `jobs` evaluations run at once. A judge that is
  // no longer usable gets none any more: the orchestrator is told so once ("fatal"), and each evaluation that waits or
  // comes later is a fault.
  Server(std::function<void(const nlohmann::json&)> send, Judge& judge, int jobs);

  // Waits for the evaluations that run; those that wait are given up.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Takes "evaluate", "lint" and "cancel"; false for "shutdown". Only what waits can be cancelled; what runs ends
  // within its deadlines. Throws nlohmann::json::exception for a message of another shape.
  bool take(const nlohmann::json& message);

 private:
  using Job = std::function<nlohmann::json(Judge&)>;  // gives the answer but for its id; what it throws is a fault

  void submit(std::int64_t id, Job job);
  void work();
  nlohmann::json answer(const Job& job);

  std::function<void(const nlohmann::json&)> send_;
  Judge& judge_;
  std::mutex mutex_;
  std::condition_variable ready_;
  bool stopping_ = false, said_unusable_ = false;
  std::list<std::pair<std::int64_t, Job>> queue_;
  std::list<std::thread> workers_;
};

}  // namespace anneal::evaluator
