// Runs one coroutine on a loop of its own, to its end, and returns what it returned or throws what it threw.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>
#include <utility>

namespace anneal {

template <class T>
T run_on(boost::asio::io_context& io, boost::asio::awaitable<T> work) {
  std::exception_ptr thrown;
  io.restart();
  if constexpr (std::is_void_v<T>) {
    boost::asio::co_spawn(io, std::move(work), [&](std::exception_ptr error) { thrown = error; });
    io.run();
    if (thrown) std::rethrow_exception(thrown);
  } else {
    std::optional<T> result;
    boost::asio::co_spawn(io, std::move(work), [&](std::exception_ptr error, T value) {
      thrown = error;
      result = std::move(value);
    });
    io.run();
    if (thrown) std::rethrow_exception(thrown);
    return std::move(result).value();
  }
}

template <class T>
T run_on_loop(boost::asio::awaitable<T> work) {
  boost::asio::io_context io;
  return run_on(io, std::move(work));
}

}  // namespace anneal
