// Owner of concurrent coroutines: they end before join() returns.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <memory>

namespace anneal {

// Lives on one loop. The ordinary form:
//   Nursery nursery(co_await this_coro::executor);
//   for (...) nursery.spawn(child(...));
//   co_await nursery.join();
class Nursery {
 public:
  explicit Nursery(boost::asio::any_io_executor executor);
  // Cancels children that still run. They unwind later on the loop, so until join() has returned they must own, or
  // share ownership of, all that they touch while unwinding.
  ~Nursery();
  Nursery(const Nursery&) = delete;
  Nursery& operator=(const Nursery&) = delete;

  // Starts `child` on the next turn of the loop. A child that throws cancels its siblings. After cancel() nothing is
  // started any more.
  void spawn(boost::asio::awaitable<void> child);

  // Waits for every child, then throws the first exception that one of them threw. Cancelling the waiting coroutine
  // cancels the children; they are waited for all the same. One coroutine at a time may wait; children may be
  // spawned meanwhile.
  boost::asio::awaitable<void> join();

  // Asks every child to end; what they throw from now on is not kept.
  void cancel();

  std::size_t running() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace anneal
