// single-shot: one question, one kernel. The control that every iterative method is compared with.
#include <nlohmann/json.hpp>

#include "agents/method.h"
#include "agents/trajectory.h"

namespace anneal::agents {
namespace {

using boost::asio::awaitable;

awaitable<Result<void>> run(std::shared_ptr<Trajectory> trajectory) {
  auto messages = trajectory->prompt("generator", nlohmann::json::object());
  if (!messages) co_return tl::unexpected(messages.error());
  AttemptPlan plan;
  plan.role = "generator";
  plan.mode = "fresh";
  plan.messages = std::move(*messages);
  auto attempt = co_await trajectory->attempt(std::move(plan));
  if (!attempt) co_return tl::unexpected(attempt.error());
  co_return Result<void>();
}

CallRange calls(int, int) { return {1, 1}; }

}  // namespace

Method single_shot_method() {
  Method method;
  method.name = "single-shot";
  method.calls = calls;
  method.run = run;
  return method;
}

}  // namespace anneal::agents
