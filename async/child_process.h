// A child process: started by posix_spawn, waited for through its pidfd, never left behind.
#pragma once

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "async/result.h"

namespace anneal {

struct ExitStatus {
  int code = 0;    // exit code when it exited
  int signal = 0;  // the signal that killed it, else 0
  bool ok() const { return code == 0 && signal == 0; }
};

// "exited with code 3", "was killed by signal 9 (Killed)".
std::string describe(const ExitStatus& status);

struct ChildOptions {
  struct Descriptor {
    int ours = -1;
    int theirs = -1;
  };

  std::vector<std::string> argv;         // argv[0]: a path, or a name that is looked up in PATH
  std::vector<std::string> environment;  // "NAME=value", all of it: nothing is inherited
  std::vector<Descriptor> descriptors;   // besides 0, 1, 2, which are inherited; every other one is closed
};

// Leads a process group of its own, so that Ctrl-C at the terminal reaches anneal alone and the group can be killed
// whole. (A grandchild that makes itself a new session leaves the group: containing those is the daemon's work.)
class ChildProcess {
 public:
  // ErrorKind::missing when the program is not there or cannot be executed, ErrorKind::io for other failures.
  static Result<ChildProcess> start(boost::asio::any_io_executor executor, ChildOptions options);

  ChildProcess(ChildProcess&&) noexcept;
  ChildProcess& operator=(ChildProcess&&) noexcept;
  // Kills the group with SIGKILL and reaps the child if it has not been waited for.
  ~ChildProcess();

  pid_t pid() const;

  // Waits for the end; may be called again. One coroutine at a time. Leftovers of the group are killed then.
  boost::asio::awaitable<ExitStatus> wait();

  // To the whole group; nothing happens once the child has been reaped.
  void signal(int number);

  // SIGTERM, and SIGKILL if it still lives after `grace`.
  boost::asio::awaitable<ExitStatus> stop(std::chrono::milliseconds grace);

 private:
  struct State;
  explicit ChildProcess(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace anneal
