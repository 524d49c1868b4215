#include "async/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "async/deadline.h"
#include "tests/async/run_on_loop.h"

namespace anneal {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

ChildOptions shell(const std::string& script) {
  ChildOptions options;
  options.argv = {"/bin/sh", "-c", script};
  options.environment = {"PATH=/usr/bin:/bin"};
  return options;
}

TEST(ChildProcess, ReportsExitCodeAndSignal) {
  asio::io_context io;
  auto exits = ChildProcess::start(io.get_executor(), shell("exit 3"));
  ASSERT_TRUE(exits);
  EXPECT_EQ(run_on(io, exits->wait()).code, 3);
  auto dies = ChildProcess::start(io.get_executor(), shell("kill -SEGV $$"));
  ASSERT_TRUE(dies);
  const ExitStatus status = run_on(io, dies->wait());
  EXPECT_EQ(status.signal, SIGSEGV);
  EXPECT_NE(describe(status).find("signal 11"), std::string::npos);
}

TEST(ChildProcess, SaysMissingWhenTheProgramIsNotThere) {
  asio::io_context io;
  ChildOptions options;
  options.argv = {"/nonexistent/anneal-evald"};
  auto child = ChildProcess::start(io.get_executor(), options);
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().kind, ErrorKind::missing);
  EXPECT_NE(child.error().message.find("/nonexistent/anneal-evald"), std::string::npos);
}

TEST(ChildProcess, PassesDescriptorsAndOnlyTheGivenEnvironment) {
  asio::io_context io;
  ::setenv("ANNEAL_TEST_SECRET", "hidden", 1);
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ChildOptions options = shell("read line <&3; echo \"$line ${ANNEAL_TEST_SECRET:-none} $GIVEN\" >&3");
  options.environment.push_back("GIVEN=yes");
  options.descriptors = {{ends[1], 3}};
  auto child = ChildProcess::start(io.get_executor(), options);
  ASSERT_TRUE(child);
  ::close(ends[1]);
  ASSERT_EQ(::write(ends[0], "hello\n", 6), 6);
  EXPECT_TRUE(run_on(io, child->wait()).ok());
  char text[64] = {};
  ASSERT_GT(::read(ends[0], text, sizeof text - 1), 0);
  EXPECT_STREQ(text, "hello none yes\n");
  ::close(ends[0]);
}

TEST(ChildProcess, KillsWhatIgnoresSigterm) {
  asio::io_context io;
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ChildOptions options = shell("trap '' TERM; echo ready >&3; while :; do sleep 1; done");
  options.descriptors = {{ends[1], 3}};
  auto child = ChildProcess::start(io.get_executor(), options);
  ASSERT_TRUE(child);
  char text[8];
  ASSERT_EQ(::read(ends[0], text, sizeof text), 6);
  EXPECT_EQ(run_on(io, child->stop(50ms)).signal, SIGKILL);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(ChildProcess, LeavesNoChildBehindWhenDestroyed) {
  asio::io_context io;
  pid_t pid = 0;
  {
    auto child = ChildProcess::start(io.get_executor(), shell("sleep 60"));
    ASSERT_TRUE(child);
    pid = child->pid();
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(ChildProcess, WaitCanTimeOutAndBeCalledAgain) {
  asio::io_context io;
  auto child = ChildProcess::start(io.get_executor(), shell("sleep 60"));
  ASSERT_TRUE(child);
  auto waited = run_on(io, with_deadline(child->wait(), 10ms));
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().kind, ErrorKind::timeout);
  child->signal(SIGKILL);
  EXPECT_EQ(run_on(io, child->wait()).signal, SIGKILL);
}

}  // namespace
}  // namespace anneal
