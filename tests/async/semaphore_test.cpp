#include "async/semaphore.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <vector>

#include "async/clock.h"
#include "async/deadline.h"
#include "async/nursery.h"
#include "tests/async/run_on_loop.h"

namespace anneal {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

struct Seen {
  int inside = 0;
  int most = 0;
  std::vector<int> order;
};

asio::awaitable<void> enter(Semaphore* semaphore, int name, Seen* seen) {
  const Semaphore::Permit permit = co_await semaphore->acquire();
  seen->order.push_back(name);
  seen->most = std::max(seen->most, ++seen->inside);
  SystemClock clock;
  co_await clock.sleep_for(1ms);
  --seen->inside;
}

asio::awaitable<void> enter_many(int permits, int count, Seen* seen) {
  auto executor = co_await asio::this_coro::executor;
  Semaphore semaphore(executor, permits);
  Nursery nursery(executor);
  for (int i = 0; i < count; ++i) nursery.spawn(enter(&semaphore, i, seen));
  co_await nursery.join();
  EXPECT_EQ(semaphore.available(), permits);
}

TEST(Semaphore, AdmitsAsManyAsItHasPermitsInTheOrderOfAsking) {
  Seen seen;
  run_on_loop(enter_many(3, 30, &seen));
  EXPECT_EQ(seen.most, 3);
  ASSERT_EQ(seen.order.size(), 30u);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(seen.order[i], i);
}

asio::awaitable<void> cancel_a_waiter(int* available) {
  auto executor = co_await asio::this_coro::executor;
  Semaphore semaphore(executor, 1);
  {
    const Semaphore::Permit held = co_await semaphore.acquire();
    Seen seen;
    auto waited = co_await with_deadline(enter(&semaphore, 1, &seen), 5ms);
    EXPECT_FALSE(waited);
    EXPECT_TRUE(seen.order.empty());
  }
  *available = semaphore.available();
}

TEST(Semaphore, LosesNoPermitToACancelledWaiter) {
  int available = 0;
  run_on_loop(cancel_a_waiter(&available));
  EXPECT_EQ(available, 1);
}

asio::awaitable<void> cancel_all_but_the_first(Seen* seen) {
  auto executor = co_await asio::this_coro::executor;
  Semaphore semaphore(executor, 1);
  Nursery nursery(executor);
  for (int i = 0; i < 5; ++i) nursery.spawn(enter(&semaphore, i, seen));
  while (seen->order.empty()) co_await asio::post(executor, asio::use_awaitable);
  nursery.cancel();  // the first gives its permit back while the others are told
  co_await nursery.join();
  EXPECT_EQ(semaphore.available(), 1);
}

TEST(Semaphore, AdmitsNobodyWhoIsCancelled) {
  Seen seen;
  run_on_loop(cancel_all_but_the_first(&seen));
  EXPECT_EQ(seen.order, std::vector<int>{0});
}

}  // namespace
}  // namespace anneal
