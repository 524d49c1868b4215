// A time limit on any awaitable.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "async/result.h"

namespace anneal {

namespace detail {

template <class T>
struct Flattened {
  using type = Result<T>;
};
template <class T>
struct Flattened<Result<T>> {
  using type = Result<T>;
};

// Of the same shape for void, so that with_deadline is written once. `slot` lies in the frame of with_deadline, which
// waits for this coroutine to end.
template <class T>
boost::asio::awaitable<void> store_into(boost::asio::awaitable<T> work,
                                        std::optional<typename Flattened<T>::type>* slot) {
  if constexpr (std::is_void_v<T>) {
    co_await std::move(work);
    slot->emplace();
  } else {
    T value = co_await std::move(work);
    slot->emplace(std::move(value));
  }
}

}  // namespace detail

// What `work` returned, or ErrorKind::timeout with `message` when `deadline` passed first; then `work` was cancelled
// and has ended (so work that ignores cancellation is waited for, and what it returned all the same is kept). A
// Result<T> is not wrapped twice. Exceptions of `work` and cancellation of the caller pass through at once.
template <class T>
boost::asio::awaitable<typename detail::Flattened<T>::type> with_deadline(
    boost::asio::awaitable<T> work, std::chrono::steady_clock::time_point deadline,
    std::string message = "Timed out.") {
  namespace asio = boost::asio;
  using R = typename detail::Flattened<T>::type;
  auto executor = co_await asio::this_coro::executor;
  std::optional<R> value;
  asio::steady_timer timer(executor, deadline);
  // Not `work || timer`: that loses exceptions of `work` and waits for the whole time.
  auto group = asio::experimental::make_parallel_group(
      asio::co_spawn(executor, detail::store_into(std::move(work), &value), asio::deferred),
      timer.async_wait(asio::deferred));
  const asio::experimental::wait_for_one first_wins;
  auto ended = co_await group.async_wait(first_wins, asio::use_awaitable);
  const bool passed = std::get<0>(ended)[0] == 1 && !std::get<2>(ended);
  if (value) co_return *std::move(value);
  if (passed) co_return fail(ErrorKind::timeout, std::move(message));
  std::rethrow_exception(std::get<1>(ended));
}

template <class T, class Rep, class Period>
boost::asio::awaitable<typename detail::Flattened<T>::type> with_deadline(boost::asio::awaitable<T> work,
                                                                          std::chrono::duration<Rep, Period> time,
                                                                          std::string message = "Timed out.") {
  return with_deadline(std::move(work), std::chrono::steady_clock::now() + time, std::move(message));
}

}  // namespace anneal
