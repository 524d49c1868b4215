#include "async/clock.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace anneal {

std::chrono::steady_clock::time_point SystemClock::now() const { return std::chrono::steady_clock::now(); }

std::chrono::system_clock::time_point SystemClock::wall() const { return std::chrono::system_clock::now(); }

boost::asio::awaitable<void> SystemClock::sleep_for(std::chrono::nanoseconds time) {
  auto executor = co_await boost::asio::this_coro::executor;
  boost::asio::steady_timer timer(executor);
  timer.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(time));
  co_await timer.async_wait(boost::asio::use_awaitable);
}

}  // namespace anneal
