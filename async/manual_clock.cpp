#include "async/manual_clock.h"

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace anneal {

std::chrono::steady_clock::time_point ManualClock::now() const { return now_; }

std::chrono::system_clock::time_point ManualClock::wall() const { return wall_; }

boost::asio::awaitable<void> ManualClock::sleep_for(std::chrono::nanoseconds time) {
  slept_.push_back(time);
  advance(time);
  auto executor = co_await boost::asio::this_coro::executor;
  co_await boost::asio::post(executor, boost::asio::use_awaitable);
}

void ManualClock::advance(std::chrono::nanoseconds time) {
  now_ += std::chrono::duration_cast<std::chrono::steady_clock::duration>(time);
  wall_ += std::chrono::duration_cast<std::chrono::system_clock::duration>(time);
}

void ManualClock::set_wall(std::chrono::system_clock::time_point wall) { wall_ = wall; }

}  // namespace anneal
