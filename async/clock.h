// Time as a dependency, so that tests of delays need not wait (manual_clock.h).
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>

namespace anneal {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::chrono::steady_clock::time_point now() const = 0;
  // UTC, for dates that others state (Retry-After).
  virtual std::chrono::system_clock::time_point wall() const = 0;
  // Cancellation throws operation_aborted, as any Asio wait.
  virtual boost::asio::awaitable<void> sleep_for(std::chrono::nanoseconds time) = 0;
};

class SystemClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point now() const override;
  std::chrono::system_clock::time_point wall() const override;
  boost::asio::awaitable<void> sleep_for(std::chrono::nanoseconds time) override;
};

}  // namespace anneal
