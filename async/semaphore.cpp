#include "async/semaphore.h"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <deque>
#include <utility>

namespace anneal {

namespace asio = boost::asio;

struct Semaphore::Ticket {
  explicit Ticket(asio::any_io_executor executor) : timer(std::move(executor), asio::steady_timer::time_point::max()) {}
  asio::steady_timer timer;
  bool granted = false;
};

struct Semaphore::State {
  State(asio::any_io_executor e, int n) : executor(std::move(e)), available(n) {}

  void release() {
    if (queue.empty()) {
      ++available;
      return;
    }
    // Handed to the first in the queue, so that nobody who asks in between overtakes it.
    Ticket* next = queue.front();
    queue.pop_front();
    next->granted = true;
    next->timer.cancel();
  }

  asio::any_io_executor executor;
  int available;
  std::deque<Ticket*> queue;
};

Semaphore::Semaphore(asio::any_io_executor executor, int permits)
    : state_(std::make_shared<State>(std::move(executor), std::max(1, permits))) {}

int Semaphore::available() const { return state_->available; }

asio::awaitable<Semaphore::Permit> Semaphore::acquire() {
  const std::shared_ptr<State> state = state_;
  if (state->available > 0) {
    --state->available;
    co_return Permit(state);
  }
  Ticket ticket(state->executor);
  struct Leave {
    State* state;
    Ticket* ticket;
    ~Leave() { std::erase(state->queue, ticket); }
  } leave{state.get(), &ticket};
  state->queue.push_back(&ticket);
  boost::system::error_code ignored;
  co_await ticket.timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  if (!ticket.granted) throw boost::system::system_error(asio::error::operation_aborted);
  Permit permit(state);
  // Cancelled and granted on the same turn of the loop: the permit goes on to the next one.
  const asio::cancellation_state cancellation = co_await asio::this_coro::cancellation_state;
  if (cancellation.cancelled() != asio::cancellation_type::none) {
    throw boost::system::system_error(asio::error::operation_aborted);
  }
  co_return permit;
}

Semaphore::Permit& Semaphore::Permit::operator=(Permit&& other) noexcept {
  if (this != &other) {
    release();
    state_ = std::move(other.state_);
  }
  return *this;
}

Semaphore::Permit::~Permit() { release(); }

void Semaphore::Permit::release() {
  if (const auto state = std::exchange(state_, nullptr)) state->release();
}

}  // namespace anneal
