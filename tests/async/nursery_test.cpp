#include "async/nursery.h"

#include <gtest/gtest.h>

#include <boost/system/system_error.hpp>
#include <stdexcept>
#include <string>

#include "async/clock.h"
#include "async/deadline.h"
#include "tests/async/run_on_loop.h"

namespace anneal {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

struct Seen {
  int finished = 0;
  int unwound = 0;
};

asio::awaitable<void> child(std::shared_ptr<Seen> seen, std::chrono::milliseconds time) {
  struct Unwind {
    std::shared_ptr<Seen> seen;
    ~Unwind() { ++seen->unwound; }
  } unwind{seen};
  SystemClock clock;
  co_await clock.sleep_for(time);
  ++seen->finished;
}

asio::awaitable<void> failing(std::string message) {
  throw std::runtime_error(message);
  co_return;
}

asio::awaitable<void> join_children(std::shared_ptr<Seen> seen, int count, std::chrono::milliseconds time) {
  Nursery nursery(co_await asio::this_coro::executor);
  for (int i = 0; i < count; ++i) nursery.spawn(child(seen, time));
  co_await nursery.join();
  EXPECT_EQ(nursery.running(), 0u);
}

// Never suspended before it does so.
asio::awaitable<void> cancelling(Nursery* nursery) {
  nursery->cancel();
  co_return;
}

asio::awaitable<void> cancelled_from_inside(std::shared_ptr<Seen> seen) {
  Nursery nursery(co_await asio::this_coro::executor);
  for (int i = 0; i < 3; ++i) nursery.spawn(child(seen, 60s));
  nursery.spawn(cancelling(&nursery));
  co_await nursery.join();
}

TEST(Nursery, AChildMayCancelItsOwnNursery) {
  auto seen = std::make_shared<Seen>();
  run_on_loop(cancelled_from_inside(seen));
  EXPECT_EQ(seen->finished, 0);
  EXPECT_EQ(seen->unwound, 3);
}

TEST(Nursery, WaitsForAllChildren) {
  auto seen = std::make_shared<Seen>();
  run_on_loop(join_children(seen, 20, 1ms));
  EXPECT_EQ(seen->finished, 20);
}

TEST(Nursery, JoinsAtOnceWithoutChildren) { run_on_loop(join_children(std::make_shared<Seen>(), 0, 0ms)); }

asio::awaitable<void> one_fails(std::shared_ptr<Seen> seen) {
  Nursery nursery(co_await asio::this_coro::executor);
  nursery.spawn(child(seen, 60s));
  nursery.spawn(failing("first"));
  nursery.spawn(failing("second"));
  co_await nursery.join();
}

TEST(Nursery, KeepsTheFirstExceptionAndCancelsTheSiblings) {
  auto seen = std::make_shared<Seen>();
  try {
    run_on_loop(one_fails(seen));
    FAIL() << "nothing thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_EQ(seen->finished, 0);
  EXPECT_EQ(seen->unwound, 1);
}

TEST(Nursery, CancelsAndAwaitsChildrenWhenTheWaiterIsCancelled) {
  auto seen = std::make_shared<Seen>();
  Result<void> result = run_on_loop(with_deadline(join_children(seen, 5, 60s), 20ms));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::timeout);
  EXPECT_EQ(seen->unwound, 5);
  EXPECT_EQ(seen->finished, 0);
}

asio::awaitable<void> leave_early(std::shared_ptr<Seen> seen) {
  Nursery nursery(co_await asio::this_coro::executor);
  nursery.spawn(child(seen, 60s));
  SystemClock clock;
  co_await clock.sleep_for(5ms);
}

TEST(Nursery, CancelsChildrenWhenDestroyed) {
  auto seen = std::make_shared<Seen>();
  run_on_loop(leave_early(seen));
  EXPECT_EQ(seen->unwound, 1);
  EXPECT_EQ(seen->finished, 0);
}

asio::awaitable<void> cancel_before_start(std::shared_ptr<Seen> seen) {
  Nursery nursery(co_await asio::this_coro::executor);
  nursery.spawn(child(seen, 60s));
  nursery.cancel();
  nursery.spawn(child(seen, 60s));
  EXPECT_EQ(nursery.running(), 1u);
  co_await nursery.join();
}

TEST(Nursery, StartsNothingAfterCancel) {
  auto seen = std::make_shared<Seen>();
  const auto start = std::chrono::steady_clock::now();
  run_on_loop(cancel_before_start(seen));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  EXPECT_EQ(seen->finished, 0);
}

}  // namespace
}  // namespace anneal
