// A command's work on its loop, which Ctrl-C ends in good order.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>

#include "async/result.h"

namespace anneal::tools {

struct WorkEnd {
  Result<void> result;       // what it threw is ErrorKind::internal
  bool interrupted = false;  // it was told to stop
};

// Runs `io` until `work` has ended and nothing else is left on it; an interrupt cancels the work. `done` is called when
// the work has ended, to let go of what would keep the loop alive.
WorkEnd run_interruptibly(boost::asio::io_context& io, boost::asio::awaitable<Result<void>> work,
                          const std::function<void()>& done);

}  // namespace anneal::tools
