// Errors as values: what an operation at a boundary (network, disk, process, user input) returns.
#pragma once

#include <string>
#include <tl/expected.hpp>

namespace anneal {

// A small closed set, so that callers can decide by kind; `message` is one complete sentence for a person, naming the
// file, line, key or task and what to do.
enum class ErrorKind {
  bad_input,  // usage or configuration: exit code 2
  missing,    // the machine lacks something (a key variable, a device, a writable file): exit code 3
  io,         // disk, database, socket
  timeout,
  unreachable,  // no connection could be made
  budget,       // a budget is spent: exit code 5
  internal,     // a broken promise of another process (protocol, recording)
};

struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(ErrorKind kind, std::string message) {
  return tl::unexpected<Error>(Error{kind, std::move(message)});
}

}  // namespace anneal
