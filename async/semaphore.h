// A counting semaphore for coroutines of one loop: first come, first served.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>

namespace anneal {

class Semaphore {
 public:
  // Returns its permit when destroyed. Movable; outlives neither the semaphore's loop nor cares whether the semaphore
  // itself still exists.
  class Permit;

  Semaphore(boost::asio::any_io_executor executor, int permits);

  // Waits for its turn. A cancelled waiter leaves the queue.
  boost::asio::awaitable<Permit> acquire();

  int available() const;

 private:
  struct State;
  struct Ticket;
  std::shared_ptr<State> state_;
};

class Semaphore::Permit {
 public:
  Permit(Permit&& other) noexcept = default;
  Permit& operator=(Permit&& other) noexcept;
  ~Permit();

 private:
  friend class Semaphore;
  explicit Permit(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void release();
  std::shared_ptr<State> state_;
};

}  // namespace anneal
