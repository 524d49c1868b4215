// A clock for tests: time passes only by sleeping, and sleeping takes no time.
#pragma once

#include <vector>

#include "async/clock.h"

namespace anneal {

class ManualClock final : public Clock {
 public:
  std::chrono::steady_clock::time_point now() const override;
  std::chrono::system_clock::time_point wall() const override;
  // Moves the clock on by `time` and resumes on the loop's next turn.
  boost::asio::awaitable<void> sleep_for(std::chrono::nanoseconds time) override;

  void advance(std::chrono::nanoseconds time);
  void set_wall(std::chrono::system_clock::time_point wall);
  // What was slept, in order.
  const std::vector<std::chrono::nanoseconds>& slept() const { return slept_; }

 private:
  std::chrono::steady_clock::time_point now_{};
  std::chrono::system_clock::time_point wall_{};
  std::vector<std::chrono::nanoseconds> slept_;
};

}  // namespace anneal
