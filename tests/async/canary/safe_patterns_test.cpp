// The forms of co_await that this project allows (tools/coroutine_rules refuses the others), under the address
// sanitizer: whatever compiler builds this, every object must be destroyed exactly once.
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "async/deadline.h"
#include "async/nursery.h"
#include "tests/async/run_on_loop.h"

namespace anneal {
namespace {

namespace asio = boost::asio;
using asio::awaitable;
using namespace std::chrono_literals;

std::set<const void*> alive;
int made = 0, faults = 0;

// Knows which objects live: destroying, copying or reading one that does not is a fault.
class Counted {
 public:
  explicit Counted(std::string text) : text_(std::make_unique<std::string>(std::move(text))) { born(); }
  Counted(const Counted& other) : text_(std::make_unique<std::string>(other.text())) { born(); }
  Counted(Counted&& other) noexcept : text_(std::move(other.text_)) {
    other.check();
    born();
  }
  Counted& operator=(Counted other) noexcept {
    check();
    text_ = std::move(other.text_);
    return *this;
  }
  ~Counted() { faults += alive.erase(this) != 1; }
  const std::string& text() const {
    check();
    return *text_;
  }

 private:
  void born() {
    ++made;
    faults += !alive.insert(this).second;
  }
  void check() const { faults += !alive.count(this); }
  std::unique_ptr<std::string> text_;  // so that the sanitizer sees a second destruction too
};

// An aggregate with members that have destructors: what compilers stumble over.
struct Item {
  Counted counted;
  std::string name;
  int number = 0;
};

const char* const long_name = "a name that is too long for the small-string buffer";

Item make_item(std::string text) { return Item{Counted(std::move(text)), long_name, 1}; }
Counted make_counted(std::string text) { return Counted(std::move(text)); }

// Suspends, so that the frames live on while the loop turns.
awaitable<void> turn() { co_await asio::post(asio::use_awaitable); }
awaitable<void> wait_long() {
  asio::steady_timer timer(co_await asio::this_coro::executor, 60s);
  co_await timer.async_wait(asio::use_awaitable);
}

awaitable<std::string> text_of(Item item) {
  co_await turn();
  co_return item.counted.text();
}
awaitable<std::string> text_of_counted(Counted counted) {
  co_await turn();
  co_return counted.text();
}
awaitable<Item> pass_on(Item item) {
  co_await turn();
  co_return item;
}
awaitable<Item> fresh(std::string text) {
  co_await turn();
  Item item{Counted(std::move(text)), long_name, 2};
  co_return item;
}
awaitable<std::pair<Counted, Counted>> two() {
  co_await turn();
  co_return std::make_pair(make_counted("one"), make_counted("two"));
}
awaitable<std::optional<Item>> next(int* left) {
  co_await turn();
  if ((*left)-- <= 0) co_return std::nullopt;
  co_return make_item("next");
}
awaitable<Result<Item>> failing(Item item, bool fails) {
  co_await turn();
  if (fails) co_return fail(ErrorKind::io, item.counted.text());
  co_return item;
}
template <class F>
awaitable<std::string> call(F function) {
  co_await turn();
  co_return function();
}
struct Failure : std::runtime_error {
  explicit Failure(std::string text) : std::runtime_error("failure"), counted(std::move(text)) {}
  Counted counted;
};
awaitable<Item> throwing(Item item, bool suspend) {
  if (suspend) co_await turn();
  throw Failure(item.counted.text());
}
awaitable<void> stuck(Item item, bool* unwound) {
  struct Mark {
    bool* unwound;
    ~Mark() { *unwound = true; }
  } const mark{unwound};
  const Item local{item.counted, item.name, 3};
  co_await wait_long();
}
std::size_t lengths(const Item& item, const std::string& text) { return item.counted.text().size() + text.size(); }

class SafePatterns : public testing::Test {
 protected:
  void SetUp() override {
    alive.clear();
    made = faults = 0;
  }
  void TearDown() override {
    EXPECT_GT(made, 0);
    EXPECT_EQ(faults, 0);
    EXPECT_EQ(alive.size(), 0u);
  }
};

awaitable<void> arguments() {
  Item item{Counted("named"), long_name, 1};
  EXPECT_EQ(co_await text_of(item), "named");
  EXPECT_EQ(co_await text_of(std::move(item)), "named");
  EXPECT_EQ(co_await text_of(make_item("made")), "made");
  EXPECT_EQ(co_await text_of_counted(make_counted("counted")), "counted");
  auto later = text_of(Item{Counted("in place, without a co_await"), long_name, 1});
  EXPECT_EQ(co_await std::move(later), "in place, without a co_await");
  const std::string text = co_await text_of(co_await pass_on(make_item("nested")));
  EXPECT_EQ(text, "nested");
  EXPECT_EQ(lengths(make_item("beside"), co_await text_of(make_item("it"))), 8u);
}
TEST_F(SafePatterns, Arguments) { run_on_loop(arguments()); }

awaitable<void> results(bool flag) {
  Item item = co_await fresh("fresh");
  item = co_await pass_on(std::move(item));
  item.name = co_await text_of(item);
  EXPECT_EQ(item.name, "fresh");
  std::vector<Item> items;
  items.push_back(co_await fresh("pushed"));
  items.push_back(co_await fresh("pushed too"));
  if (flag) {
    item = co_await fresh("one");
  } else {
    item = co_await fresh("other");
  }
  EXPECT_EQ(item.counted.text(), flag ? "one" : "other");
  EXPECT_EQ((co_await fresh("member of a result")).counted.text(), "member of a result");
  auto both = co_await two();
  const auto& [one, other] = both;
  EXPECT_EQ(one.text() + other.text(), "onetwo");
  for (const Item& each : items) items.front().name = co_await text_of(each);
  int left = 3, got = 0;
  while (const std::optional<Item> found = co_await next(&left)) got += found->number;
  EXPECT_EQ(got, 3);
}
TEST_F(SafePatterns, Results) {
  run_on_loop(results(true));
  run_on_loop(results(false));
}

awaitable<void> lambdas() {
  const Counted counted("captured");
  auto copies = [counted] { return counted.text(); };
  EXPECT_EQ(co_await call(copies), "captured");
  EXPECT_EQ(co_await call(std::move(copies)), "captured");
  auto refers = [&counted] { return counted.text(); };
  EXPECT_EQ(co_await call(refers), "captured");
  const auto coroutine = [](Item item) -> awaitable<std::string> {
    co_await turn();
    co_return item.counted.text();
  };
  EXPECT_EQ(co_await coroutine(make_item("argument")), "argument");
}
TEST_F(SafePatterns, Lambdas) { run_on_loop(lambdas()); }

awaitable<void> errors_as_values() {
  Result<Item> result = co_await failing(make_item("kept"), false);
  EXPECT_TRUE(result);
  EXPECT_EQ(result->counted.text(), "kept");
  result = co_await failing(*std::move(result), true);
  EXPECT_FALSE(result);
  EXPECT_EQ(result.error().message, "kept");
}
TEST_F(SafePatterns, ErrorsAsValues) { run_on_loop(errors_as_values()); }

awaitable<void> exceptions(bool suspend) {
  const Item local = make_item("local");
  int caught = 0;
  try {
    const Item item = co_await pass_on(co_await throwing(make_item("argument"), suspend));
    caught += 10 * item.number;
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.counted.text(), "argument");
    ++caught;
  }
  try {
    caught += lengths(make_item("beside"), (co_await throwing(local, suspend)).name) > 0 ? 10 : 0;
  } catch (const Failure&) {
    ++caught;
  }
  EXPECT_EQ(caught, 2);
  co_await throwing(make_item("leaves"), suspend);
}
TEST_F(SafePatterns, Exceptions) {
  EXPECT_THROW(run_on_loop(exceptions(false)), Failure);
  EXPECT_THROW(run_on_loop(exceptions(true)), Failure);
}

awaitable<void> cancelled(bool* unwound) {
  const Item local = make_item("local");
  const Result<void> result = co_await with_deadline(stuck(make_item("argument"), unwound), 5ms);
  EXPECT_FALSE(result);
  EXPECT_TRUE(*unwound);
}
TEST_F(SafePatterns, Deadline) {
  bool unwound = false;
  run_on_loop(cancelled(&unwound));
}

awaitable<void> throws_later() { co_await throwing(make_item("first"), true); }
awaitable<void> siblings(bool* unwound) {
  Nursery nursery(co_await asio::this_coro::executor);
  nursery.spawn(stuck(make_item("argument"), unwound));
  nursery.spawn(throws_later());
  co_await nursery.join();
}
TEST_F(SafePatterns, CancelledByASibling) {
  bool unwound = false;
  EXPECT_THROW(run_on_loop(siblings(&unwound)), Failure);
  EXPECT_TRUE(unwound);
}

awaitable<void> never_ends(bool* unwound) {
  const Item local = make_item("local");
  const std::string text = co_await text_of(make_item("done"));
  EXPECT_EQ(text, "done");
  co_await stuck(make_item("argument"), unwound);
}
TEST_F(SafePatterns, LoopDestroyedWhileSuspended) {
  bool unwound = false;
  {
    asio::io_context io;
    asio::co_spawn(io, never_ends(&unwound), [](std::exception_ptr) { FAIL(); });
    io.run_for(5ms);
    EXPECT_FALSE(unwound);
  }
  EXPECT_TRUE(unwound);
}

TEST_F(SafePatterns, NeverStarted) {
  bool unwound = false;
  {
    const auto work = never_ends(&unwound);
  }
  {
    const auto work = text_of(make_item("argument"));
  }
  EXPECT_FALSE(unwound);
}

}  // namespace
}  // namespace anneal
