#include "async/nursery.h"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <list>
#include <utility>
#include <vector>

namespace anneal {

namespace asio = boost::asio;

namespace {

// The completion handler of join(), type-erased.
struct Waiter {
  virtual ~Waiter() = default;
  virtual void complete() = 0;
};

template <class Handler>
struct WaiterOf final : Waiter {
  explicit WaiterOf(Handler h) : handler(std::move(h)), guard(asio::get_associated_executor(handler)) {}
  void complete() override { asio::post(guard.get_executor(), std::move(handler)); }

  Handler handler;
  asio::executor_work_guard<asio::associated_executor_t<Handler>> guard;
};

}  // namespace

struct Nursery::State : std::enable_shared_from_this<Nursery::State> {
  explicit State(asio::any_io_executor e) : executor(std::move(e)) {}

  void cancel() {
    cancelled = true;
    // On the next turn of the loop: a child that cancels its own nursery before it was ever suspended would throw out
    // of co_spawn (Boost 1.81, co_spawn_entry_point: its last co_await stands outside the try).
    asio::post(executor, [self = shared_from_this()] {
      // A copy: a child may end while it is told to.
      const std::vector<std::shared_ptr<asio::cancellation_signal>> signals(self->children.begin(),
                                                                            self->children.end());
      for (const auto& signal : signals) signal->emit(asio::cancellation_type::all);
    });
  }

  void ended(std::list<std::shared_ptr<asio::cancellation_signal>>::iterator child, std::exception_ptr error) {
    children.erase(child);
    if (error && !cancelled) {
      first_error = error;
      cancel();
    }
    if (children.empty() && waiter) std::exchange(waiter, nullptr)->complete();
  }

  asio::any_io_executor executor;
  std::list<std::shared_ptr<asio::cancellation_signal>> children;
  bool cancelled = false;
  std::exception_ptr first_error;
  std::unique_ptr<Waiter> waiter;
};

namespace {

template <class State>
struct WaitForChildren {
  std::shared_ptr<State> state;

  template <class Handler>
  void operator()(Handler handler) const {
    auto slot = asio::get_associated_cancellation_slot(handler);
    if (slot.is_connected()) {
      slot.assign([weak = std::weak_ptr<State>(state)](asio::cancellation_type) {
        if (auto alive = weak.lock()) alive->cancel();
      });
    }
    state->waiter = std::make_unique<WaiterOf<Handler>>(std::move(handler));
  }
};

template <class State>
asio::awaitable<void> wait_for_children(std::shared_ptr<State> state) {
  return asio::async_initiate<const asio::use_awaitable_t<>, void()>(WaitForChildren<State>{std::move(state)},
                                                                     asio::use_awaitable);
}

}  // namespace

Nursery::Nursery(asio::any_io_executor executor) : state_(std::make_shared<State>(std::move(executor))) {}

Nursery::~Nursery() { state_->cancel(); }

void Nursery::spawn(asio::awaitable<void> child) {
  if (state_->cancelled) return;
  auto signal = std::make_shared<asio::cancellation_signal>();
  const auto place = state_->children.insert(state_->children.end(), signal);
  // The handler keeps the signal alive as long as Asio may look at its slot.
  auto done = [state = state_, place, signal](std::exception_ptr error) { state->ended(place, error); };
  // Posted first, so that a child never runs inside the call that spawns it.
  asio::post(state_->executor, [state = state_, signal, child = std::move(child), done = std::move(done)]() mutable {
    asio::co_spawn(state->executor, std::move(child), asio::bind_cancellation_slot(signal->slot(), std::move(done)));
    if (state->cancelled) signal->emit(asio::cancellation_type::all);
  });
}

asio::awaitable<void> Nursery::join() {
  const std::shared_ptr<State> state = state_;
  if (!state->children.empty()) co_await wait_for_children(state);
  if (state->first_error) std::rethrow_exception(std::exchange(state->first_error, nullptr));
  const asio::cancellation_state cancellation = co_await asio::this_coro::cancellation_state;
  if (cancellation.cancelled() != asio::cancellation_type::none) {
    throw boost::system::system_error(asio::error::operation_aborted);
  }
}

void Nursery::cancel() { state_->cancel(); }

std::size_t Nursery::running() const { return state_->children.size(); }

}  // namespace anneal
