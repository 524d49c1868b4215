#include "async/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

// glibc 2.36 declares pidfd_open without C linkage.
extern "C" {
#include <sys/pidfd.h>
}

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "async/deadline.h"

namespace anneal {

namespace asio = boost::asio;

namespace {

class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() {
    posix_spawn_file_actions_destroy(&actions_);
    for (const int fd : copies_) ::close(fd);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  // Through a copy above every target, so that one dup2 cannot overwrite the source of the next. 0 or errno.
  int pass(int ours, int theirs, int above) {
    const int copy = ::fcntl(ours, F_DUPFD_CLOEXEC, above);
    if (copy < 0) return errno;
    copies_.push_back(copy);
    return posix_spawn_file_actions_adddup2(&actions_, copy, theirs);
  }
  int close_from(int first) { return posix_spawn_file_actions_addclosefrom_np(&actions_, first); }
  int close(int fd) { return posix_spawn_file_actions_addclose(&actions_, fd); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
  std::vector<int> copies_;
};

class SpawnAttributes {
 public:
  SpawnAttributes() {
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& s : strings) result.push_back(s.data());
  result.push_back(nullptr);
  return result;
}

asio::awaitable<void> wait_readable(asio::posix::stream_descriptor* descriptor) {
  return descriptor->async_wait(asio::posix::stream_descriptor::wait_read, asio::use_awaitable);
}

}  // namespace

std::string describe(const ExitStatus& status) {
  if (status.signal != 0) {
    return "was killed by signal " + std::to_string(status.signal) + " (" + ::strsignal(status.signal) + ")";
  }
  return "exited with code " + std::to_string(status.code);
}

struct ChildProcess::State {
  State(asio::any_io_executor executor, pid_t p, int fd) : pid(p), pidfd(std::move(executor), fd) {}

  ~State() {
    if (status) return;
    ::kill(-pid, SIGKILL);
    siginfo_t info{};
    while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED) < 0 && errno == EINTR) {
    }
  }

  // Takes the status of an ended child. Its pid stays reserved until then, so the group kill hits the right group.
  void reap() {
    siginfo_t info{};
    const auto id = static_cast<id_t>(pid);
    if (::waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0) return;
    ::kill(-pid, SIGKILL);
    while (::waitid(P_PID, id, &info, WEXITED) < 0 && errno == EINTR) {
    }
    ExitStatus ended;
    if (info.si_code == CLD_EXITED) {
      ended.code = info.si_status;
    } else {
      ended.signal = info.si_status;
    }
    status = ended;
  }

  pid_t pid;
  asio::posix::stream_descriptor pidfd;
  std::optional<ExitStatus> status;
};

Result<ChildProcess> ChildProcess::start(asio::any_io_executor executor, ChildOptions options) {
  if (options.argv.empty()) return fail(ErrorKind::internal, "A child process needs a program to run.");
  const std::string program = options.argv[0];
  int highest = 2;
  for (const auto& d : options.descriptors) highest = std::max(highest, d.theirs);

  SpawnActions actions;
  int error = 0;
  for (const auto& d : options.descriptors) {
    if (error == 0) error = actions.pass(d.ours, d.theirs, highest + 1);
  }
  for (int fd = 3; fd <= highest && error == 0; ++fd) {
    const bool passed = std::any_of(options.descriptors.begin(), options.descriptors.end(),
                                    [fd](const auto& d) { return d.theirs == fd; });
    if (!passed) error = actions.close(fd);
  }
  if (error == 0) error = actions.close_from(highest + 1);
  if (error != 0) return fail(ErrorKind::io, "Cannot start " + program + ": " + std::strerror(error) + ".");

  const SpawnAttributes attributes;
  std::vector<char*> argv = pointers(options.argv);
  std::vector<char*> environment = pointers(options.environment);
  pid_t pid = -1;
  error = ::posix_spawnp(&pid, program.c_str(), actions.get(), attributes.get(), argv.data(), environment.data());
  if (error != 0) {
    const bool absent = error == ENOENT || error == EACCES || error == ENOEXEC || error == ENOTDIR;
    return fail(absent ? ErrorKind::missing : ErrorKind::io,
                "Cannot start " + program + ": " + std::strerror(error) + ".");
  }
  const int pidfd = ::pidfd_open(pid, 0);
  if (pidfd < 0) {
    error = errno;
    ::kill(-pid, SIGKILL);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED);
    return fail(ErrorKind::io, std::string("pidfd_open: ") + std::strerror(error) + ".");
  }
  return ChildProcess(std::make_unique<State>(std::move(executor), pid, pidfd));
}

ChildProcess::ChildProcess(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChildProcess::ChildProcess(ChildProcess&&) noexcept = default;
ChildProcess& ChildProcess::operator=(ChildProcess&&) noexcept = default;
ChildProcess::~ChildProcess() = default;

pid_t ChildProcess::pid() const { return state_->pid; }

asio::awaitable<ExitStatus> ChildProcess::wait() {
  State* state = state_.get();
  state->reap();
  while (!state->status) {
    co_await wait_readable(&state->pidfd);
    state->reap();
  }
  co_return *state->status;
}

void ChildProcess::signal(int number) {
  if (!state_->status) ::kill(-state_->pid, number);
}

asio::awaitable<ExitStatus> ChildProcess::stop(std::chrono::milliseconds grace) {
  signal(SIGTERM);
  Result<ExitStatus> ended = co_await with_deadline(wait(), grace);
  if (ended) co_return *ended;
  signal(SIGKILL);
  ExitStatus killed = co_await wait();
  co_return killed;
}

}  // namespace anneal
