#include "async/deadline.h"

#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/system/system_error.hpp>
#include <stdexcept>

#include "async/clock.h"
#include "tests/async/run_on_loop.h"

namespace anneal {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

asio::awaitable<int> after(std::chrono::milliseconds time, int value) {
  SystemClock clock;
  co_await clock.sleep_for(time);
  co_return value;
}

asio::awaitable<void> throw_after(std::chrono::milliseconds time) {
  SystemClock clock;
  co_await clock.sleep_for(time);
  throw std::runtime_error("broken");
}

asio::awaitable<Result<int>> fails() { co_return fail(ErrorKind::io, "no disk"); }

TEST(WithDeadline, ReturnsTheValueOfQuickWork) {
  Result<int> result = run_on_loop(with_deadline(after(1ms, 7), 10s));
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, 7);
}

TEST(WithDeadline, CancelsSlowWorkAndSaysTimeout) {
  const auto start = std::chrono::steady_clock::now();
  Result<int> result = run_on_loop(with_deadline(after(60s, 7), 20ms, "The model did not answer."));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::timeout);
  EXPECT_EQ(result.error().message, "The model did not answer.");
}

TEST(WithDeadline, TimesOutAtOnceWhenTheDeadlineHasPassed) {
  Result<int> result = run_on_loop(with_deadline(after(60s, 7), std::chrono::steady_clock::now() - 1s));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::timeout);
}

TEST(WithDeadline, PassesExceptionsOnWithoutWaiting) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(run_on_loop(with_deadline(throw_after(1ms), 60s)), std::runtime_error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
}

TEST(WithDeadline, DoesNotWrapAResultTwice) {
  Result<int> result = run_on_loop(with_deadline(fails(), 60s));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "no disk");
}

TEST(WithDeadline, PassesCancellationOfTheCallerOn) {
  asio::io_context io;
  asio::cancellation_signal signal;
  std::exception_ptr thrown;
  asio::co_spawn(
      io, with_deadline(after(60s, 7), 60s),
      asio::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr error, Result<int>) { thrown = error; }));
  asio::steady_timer timer(io, 10ms);
  timer.async_wait([&](boost::system::error_code) { signal.emit(asio::cancellation_type::terminal); });
  io.run();
  ASSERT_TRUE(thrown);
  EXPECT_THROW(std::rethrow_exception(thrown), boost::system::system_error);
}

}  // namespace
}  // namespace anneal
