#include "async/writer_thread.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "async/result.h"

namespace anneal {
namespace {

namespace asio = boost::asio;

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

TEST(WriterThread, RunsOnItsThreadAndResumesOnTheLoop) {
  asio::io_context io;
  WriterThread writer;
  std::thread::id worker, resumed;
  std::string got;
  auto body = [&]() -> asio::awaitable<void> {
    auto work = [&] {
      worker = std::this_thread::get_id();
      return std::make_unique<std::string>("row");
    };
    std::unique_ptr<std::string> text = co_await writer.run(std::move(work));
    resumed = std::this_thread::get_id();
    got = *text;
  };
  asio::co_spawn(io, body(), rethrow);
  io.run();
  EXPECT_EQ(got, "row");
  EXPECT_EQ(resumed, std::this_thread::get_id());
  EXPECT_NE(worker, resumed);
}

TEST(WriterThread, RunsInOrder) {
  asio::io_context io;
  WriterThread writer;
  std::vector<int> order;
  auto one = [&](int i) -> asio::awaitable<void> {
    auto work = [&order, i] { order.push_back(i); };
    co_await writer.run(std::move(work));
  };
  for (int i = 0; i < 100; ++i) asio::co_spawn(io, one(i), rethrow);
  io.run();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

TEST(WriterThread, HandsExceptionsAndErrorsToTheCaller) {
  asio::io_context io;
  WriterThread writer;
  std::string thrown, error;
  auto body = [&]() -> asio::awaitable<void> {
    auto throws = [] { throw std::runtime_error("disk full"); };
    try {
      co_await writer.run(throws);
    } catch (const std::runtime_error& e) {
      thrown = e.what();
    }
    auto fails = []() -> Result<int> { return fail(ErrorKind::io, "locked"); };
    Result<int> result = co_await writer.run(fails);
    error = result.error().message;
  };
  asio::co_spawn(io, body(), rethrow);
  io.run();
  EXPECT_EQ(thrown, "disk full");
  EXPECT_EQ(error, "locked");
}

}  // namespace
}  // namespace anneal
