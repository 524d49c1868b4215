#include "tools/interruptible.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <exception>

#include "async/interrupt.h"

namespace anneal::tools {

WorkEnd run_interruptibly(boost::asio::io_context& io, boost::asio::awaitable<Result<void>> work,
                          const std::function<void()>& done) {
  WorkEnd end{fail(ErrorKind::internal, "internal error: the work never ended."), false};
  boost::asio::cancellation_signal cancel;
  Interrupt interrupt(io.get_executor(), [&] { cancel.emit(boost::asio::cancellation_type::terminal); });
  boost::asio::co_spawn(
      io, std::move(work),
      boost::asio::bind_cancellation_slot(cancel.slot(), [&](std::exception_ptr thrown, Result<void> result) {
        end.result = std::move(result);
        try {
          if (thrown) std::rethrow_exception(thrown);
        } catch (const std::exception& exception) {
          end.result = fail(ErrorKind::internal, std::string("internal error: ") + exception.what() + ".");
        }
        interrupt.stop();
        done();
      }));
  io.run();
  end.interrupted = interrupt.requested();
  return end;
}

}  // namespace anneal::tools
