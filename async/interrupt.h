// Ctrl-C and SIGTERM: the first asks for a graceful end, the second ends the process at once.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/signal_set.hpp>
#include <functional>
#include <memory>

namespace anneal {

// One a process. Destroying it (or stop()) restores the default handling and lets the loop run out of work.
class Interrupt {
 public:
  // Exit code of a process that was interrupted (docs/interface.md).
  static constexpr int exit_code = 4;

  // `on_request` runs once, on the loop, at the first SIGINT or SIGTERM. From then on another of them leaves with
  // exit_code from within the signal handler, so that a loop which hangs can still be ended.
  Interrupt(boost::asio::any_io_executor executor, std::function<void()> on_request);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  bool requested() const;
  void stop();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace anneal
