#include "evaluator/daemon/server.h"

#include <exception>
#include <set>
#include <string>

#include "evaluator/lint_report.h"

namespace anneal::evaluator {

using nlohmann::json;

namespace {

constexpr const char* unusable =
    "a kernel could not be killed within a minute, so the device may still be running it: nothing more is judged on "
    "it. End that process or reset the device, then run again";

}  // namespace

Server::Server(std::function<void(const json&)> send, Judge& judge, int jobs) : send_(std::move(send)), judge_(judge) {
  for (int i = 0; i < jobs; ++i) workers_.emplace_back([this] { work(); });
}

Server::~Server() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

bool Server::take(const json& message) {
  const std::string type = message.value("type", "");
  if (type == "evaluate") {
    EvaluationOrder order;
    order.task = message.at("task").get<std::string>();
    order.code = message.at("code").get<std::string>();
    const auto stages = message.at("stages").get<std::set<std::string>>();
    order.exe = stages.count("exe") != 0;
    order.perf = stages.count("perf") != 0;
    order.policy_off = message.value("policy_off", false);
    submit(message.at("id").get<std::int64_t>(), [order = std::move(order)](Judge& judge) {
      return json{{"type", "verdict"}, {"verdict", verdict_to_json(judge.evaluate(order))}};
    });
  } else if (type == "lint") {
    submit(message.at("id").get<std::int64_t>(), [task = message.at("task").get<std::string>()](Judge& judge) {
      return json{{"type", "lint_report"}, {"report", lint_report_to_json(judge.lint(task))}};
    });
  } else if (type == "cancel") {
    const auto id = message.at("id").get<std::int64_t>();
    const std::lock_guard lock(mutex_);
    queue_.remove_if([id](const auto& waiting) { return waiting.first == id; });
  }
  return type != "shutdown";
}

void Server::submit(std::int64_t id, Job job) {
  {
    const std::lock_guard lock(mutex_);
    queue_.emplace_back(id, std::move(job));
  }
  ready_.notify_one();
}

json Server::answer(const Job& job) {
  if (!judge_.usable()) return {{"type", "fault"}, {"message", unusable}};
  try {
    return job(judge_);
  } catch (const std::exception& fault) {
    return {{"type", "fault"}, {"message", fault.what()}};
  }
}

void Server::work() {
  for (;;) {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const auto [id, job] = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    json reply = answer(job);
    reply["id"] = id;
    send_(reply);
    if (judge_.usable()) continue;
    lock.lock();
    if (std::exchange(said_unusable_, true)) continue;
    lock.unlock();
    send_({{"type", "fatal"}, {"kind", "unusable"}, {"message", unusable}});
  }
}

}  // namespace anneal::evaluator
