#include "evaluator/daemon/syscall_filter.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <thread>

namespace anneal::evaluator {
namespace {

// Runs `act` in a filtered child. Its exit code is what `act` returns; -signal when a signal ended it.
int filtered(const std::function<int()>& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ::_exit(99);
    filter_system_calls();
    ::_exit(act());
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return 98;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int error_of(long result) { return result < 0 ? errno : 0; }

TEST(SyscallFilter, RefusesTheNetworkButNotUnixSockets) {
  EXPECT_EQ(filtered([] { return error_of(::socket(AF_INET, SOCK_STREAM, 0)); }), EPERM);
  EXPECT_EQ(filtered([] { return error_of(::socket(AF_INET6, SOCK_DGRAM, 0)); }), EPERM);
  EXPECT_EQ(filtered([] { return error_of(::socket(AF_NETLINK, SOCK_RAW, 0)); }), EPERM);
  EXPECT_EQ(filtered([] { return error_of(::socket(AF_UNIX, SOCK_STREAM, 0)); }), 0);
}

TEST(SyscallFilter, RefusesNewNamespacesByEveryDoor) {
  EXPECT_EQ(filtered([] { return error_of(::unshare(CLONE_NEWUSER)); }), EPERM);
  EXPECT_EQ(filtered([] { return error_of(::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)); }), EPERM);
  EXPECT_EQ(filtered([] { return error_of(::syscall(SYS_clone, CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0)); }), EPERM);
  EXPECT_EQ(filtered([] { return error_of(::syscall(SYS_clone3, nullptr, 0)); }), ENOSYS);
}

TEST(SyscallFilter, RefusesToReachOtherProcesses) {
  EXPECT_EQ(filtered([] { return error_of(::syscall(SYS_ptrace, 16, ::getppid(), 0, 0)); }), EPERM);
  EXPECT_EQ(filtered([] { return error_of(::syscall(SYS_process_vm_readv, ::getppid(), 0, 0, 0, 0, 0)); }), EPERM);
}

TEST(SyscallFilter, EndsAProcessThatUsesTheX32Form) {
  EXPECT_EQ(filtered([] { return error_of(::syscall(0x40000000 | SYS_ptrace, 0, 0, 0, 0)); }), -SIGSYS);
}

TEST(SyscallFilter, LeavesForksAndThreadsAlone) {
  EXPECT_EQ(filtered([] {
              const pid_t child = ::fork();
              if (child == 0) ::_exit(7);
              int status = 0;
              ::waitpid(child, &status, 0);
              int seen = 0;
              std::thread([&] { seen = WEXITSTATUS(status); }).join();
              return seen;
            }),
            7);
}

}  // namespace
}  // namespace anneal::evaluator
