// One thread that runs callables in order, for work that must not block the loop: the store's writes.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

namespace anneal {

// Destroy it before the io_context that its callers run on.
class WriterThread {
 public:
  WriterThread() : pool_(1) {}
  // Runs what is queued, then ends the thread.
  ~WriterThread() { join(); }
  WriterThread(const WriterThread&) = delete;
  WriterThread& operator=(const WriterThread&) = delete;

  // Runs `callable()` on the thread and resumes the caller on its own executor with what it returned or threw. First
  // come, first run. Cancelling the caller does not stop the callable: a row that was handed over is written, and
  // everything the callable refers to in the caller's frame stays alive until it has run.
  template <class F>
  boost::asio::awaitable<std::invoke_result_t<F&>> run(F callable) {
    Outcome<F> outcome = co_await start(std::move(callable));
    if (!outcome) std::rethrow_exception(outcome.error());
    if constexpr (!std::is_void_v<std::invoke_result_t<F&>>) co_return *std::move(outcome);
  }

  // Waits, blocking, until everything queued has run; nothing may be queued afterwards.
  void join() { pool_.join(); }

 private:
  template <class F>
  using Outcome = tl::expected<std::invoke_result_t<F&>, std::exception_ptr>;

  struct Initiation {
    boost::asio::thread_pool* pool;

    template <class Handler, class F>
    void operator()(Handler handler, F callable) const {
      // The guard keeps the caller's loop running while nothing but this thread works for it.
      auto guard = boost::asio::make_work_guard(boost::asio::get_associated_executor(handler));
      boost::asio::post(
          *pool, [handler = std::move(handler), guard = std::move(guard), callable = std::move(callable)]() mutable {
            Outcome<F> outcome = call(callable);
            auto executor = guard.get_executor();
            boost::asio::post(executor, [handler = std::move(handler), outcome = std::move(outcome)]() mutable {
              std::move(handler)(std::move(outcome));
            });
          });
    }

    template <class F>
    static Outcome<F> call(F& callable) {
      try {
        if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
          callable();
          return {};
        } else {
          return callable();
        }
      } catch (...) {
        return tl::unexpected<std::exception_ptr>(std::current_exception());
      }
    }
  };

  template <class F>
  boost::asio::awaitable<Outcome<F>> start(F callable) {
    return boost::asio::async_initiate<const boost::asio::use_awaitable_t<>, void(Outcome<F>)>(
        Initiation{&pool_}, boost::asio::use_awaitable, std::move(callable));
  }

  boost::asio::thread_pool pool_;
};

}  // namespace anneal
