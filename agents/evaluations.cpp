#include "agents/evaluations.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <optional>

#include "async/sha256.h"
#include "transitions/ids.h"
#include "transitions/normalise.h"

namespace anneal::agents {

namespace asio = boost::asio;
using asio::awaitable;
using transitions::EvaluationRow;

// One evaluation under way. Those who wait sleep on `done`, which is cancelled when it has ended.
struct Evaluations::InFlight {
  explicit InFlight(asio::any_io_executor executor) : done(executor, asio::steady_timer::time_point::max()) {}
  asio::steady_timer done;
  bool ended = false;
  std::optional<Result<EvaluationRow>> result;  // empty when the one who judged was cancelled
};

Evaluations::Evaluations(transitions::Store& store, evaluator::Judge& judge, std::string device, bool policy_off)
    : store_(store), judge_(judge), device_(std::move(device)), policy_off_(policy_off) {}

awaitable<Result<EvaluationRow>> Evaluations::judge(Task task, std::string code, std::string normalised,
                                                    std::string id) {
  auto stored = co_await store_.find_evaluation(id);
  if (!stored) co_return tl::unexpected(stored.error());
  if (*stored) {
    ++found_;
    co_return std::move(**stored);
  }
  evaluator::EvaluationRequest request;
  request.task = task.id;
  request.category = task.category;
  request.code = code;
  request.policy_off = policy_off_;
  auto verdict = co_await judge_.evaluate(std::move(request));
  if (!verdict) co_return tl::unexpected(verdict.error());
  ++judged_;
  EvaluationRow row;
  row.id = id;
  row.device = device_;
  row.normalised_sha256 = normalised;
  row.verdict = std::move(*verdict);
  row.task_sha256 = task.file_sha256;
  row.policy_off = policy_off_;
  auto put = co_await store_.put_evaluation(row);
  if (!put) co_return tl::unexpected(put.error());
  co_return row;
}

bool judged_for_itself(const std::string& attempt) { return std::stoul(attempt.substr(0, 8), nullptr, 16) % 20 == 0; }

awaitable<Result<EvaluationRow>> Evaluations::evaluate(Task task, std::string code, std::string attempt) {
  const std::string normalised = transitions::normalised_sha256(code);
  const std::string own = !attempt.empty() && judged_for_itself(attempt) ? attempt : std::string();
  const std::string id =
      transitions::make_id({"evaluation", task.id, task.file_sha256, device_, judge_.facts().settings_sha256,
                            policy_off_ ? "policy off" : "policy on", normalised, own});
  const auto executor = co_await asio::this_coro::executor;
  for (;;) {
    const auto at = in_flight_.find(id);
    if (at == in_flight_.end()) break;
    const std::shared_ptr<InFlight> other = at->second;
    boost::system::error_code ignored;
    while (!other->ended) {
      co_await other->done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      const auto cancellation = co_await asio::this_coro::cancellation_state;
      if (cancellation.cancelled() != asio::cancellation_type::none) {
        throw boost::system::system_error(asio::error::operation_aborted);
      }
    }
    if (other->result) {
      if (*other->result) ++found_;
      co_return *other->result;
    }
  }
  const auto ours = std::make_shared<InFlight>(executor);
  in_flight_.emplace(id, ours);
  // Wakes the others however this ends, by cancellation too.
  struct Wake {
    Evaluations* owner;
    std::string id;
    std::shared_ptr<InFlight> flight;
    Wake(Evaluations* o, std::string i, std::shared_ptr<InFlight> f)
        : owner(o), id(std::move(i)), flight(std::move(f)) {}
    Wake(const Wake&) = delete;
    Wake& operator=(const Wake&) = delete;
    ~Wake() {
      flight->ended = true;
      owner->in_flight_.erase(id);
      flight->done.cancel();
    }
  };
  const Wake wake(this, id, ours);
  auto result = co_await judge(std::move(task), std::move(code), normalised, id);
  ours->result = result;
  co_return result;
}

}  // namespace anneal::agents
