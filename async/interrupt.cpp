#include "async/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <utility>

namespace anneal {

namespace {

extern "C" void leave_at_once(int) { _exit(Interrupt::exit_code); }

}  // namespace

struct Interrupt::State {
  State(boost::asio::any_io_executor executor, std::function<void()> f)
      : signals(std::move(executor), SIGINT, SIGTERM), on_request(std::move(f)) {}

  boost::asio::signal_set signals;
  std::function<void()> on_request;
  bool requested = false;
  bool stopped = false;
};

Interrupt::Interrupt(boost::asio::any_io_executor executor, std::function<void()> on_request)
    : state_(std::make_shared<State>(std::move(executor), std::move(on_request))) {
  // The state outlives the wait: a cancelled wait still completes, after this object may have gone.
  state_->signals.async_wait([state = state_](boost::system::error_code error, int) {
    if (error || state->stopped) return;
    state->requested = true;
    state->signals.clear();
    std::signal(SIGINT, leave_at_once);
    std::signal(SIGTERM, leave_at_once);
    state->on_request();
  });
}

Interrupt::~Interrupt() { stop(); }

bool Interrupt::requested() const { return state_->requested; }

void Interrupt::stop() {
  if (std::exchange(state_->stopped, true)) return;
  if (state_->requested) {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    return;
  }
  state_->signals.cancel();
  state_->signals.clear();
}

}  // namespace anneal
