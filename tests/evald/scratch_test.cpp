#include "evaluator/daemon/scratch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "evaluator/daemon/fault.h"
#include "tests/temporary_folder.h"

namespace anneal::evaluator {
namespace {

namespace fs = std::filesystem;

class RunFolders : public testing::Test {
 protected:
  void SetUp() override { ::setenv("TMPDIR", temporary.path().c_str(), 1); }
  void TearDown() override { ::unsetenv("TMPDIR"); }

  int count() const {
    int found = 0;
    for ([[maybe_unused]] const auto& one : fs::directory_iterator(temporary.path())) ++found;
    return found;
  }

  test::TemporaryFolder temporary;
};

TEST_F(RunFolders, GoWithAllThatLiesInThem) {
  {
    const auto run = RunFolder::create();
    const ScratchFolder scratch(run->path(), std::nullopt);
    std::ofstream(scratch.path() + "/file") << "left";
    EXPECT_EQ(fs::path(scratch.path()).parent_path(), run->path());
    EXPECT_EQ(count(), 1);
  }
  EXPECT_EQ(count(), 0);
}

TEST_F(RunFolders, OfAKilledDaemonGoAtTheNextStartAndALiveOnesStays) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t killed = ::fork();
  if (killed == 0) {
    const auto run = RunFolder::create();
    std::ofstream(run->path() + "/file") << "left";
    [[maybe_unused]] const auto told = ::write(ready[1], "x", 1);
    for (;;) ::pause();
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const auto live = RunFolder::create();
  EXPECT_EQ(count(), 2) << "the child lives and has its folder locked";
  ::kill(killed, SIGKILL);
  ::waitpid(killed, nullptr, 0);
  const auto next = RunFolder::create();
  EXPECT_EQ(count(), 2) << "the killed one's is gone";
  EXPECT_TRUE(fs::exists(live->path()));
  EXPECT_TRUE(fs::exists(next->path()));
}

// Each start looks for abandoned folders, and may see another's between its making and its locking.
TEST_F(RunFolders, OfDaemonsThatStartTogetherAreAllMade) {
  std::vector<std::thread> daemons;
  std::atomic<int> failed = 0;
  for (int i = 0; i < 4; ++i) {
    daemons.emplace_back([&] {
      for (int k = 0; k < 300; ++k) {
        try {
          const auto run = RunFolder::create();
          if (!fs::is_directory(run->path())) ++failed;
        } catch (const std::exception&) {
          ++failed;
        }
      }
    });
  }
  for (std::thread& one : daemons) one.join();
  EXPECT_EQ(failed, 0);
}

TEST_F(RunFolders, LeaveAloneWhatIsNotTheirs) {
  temporary.write("anneal-other/file", "kept");
  temporary.write("anneal-evald-file", "a file of that name");
  fs::create_directory(temporary.path() / "elsewhere");
  fs::create_directory_symlink(temporary.path() / "elsewhere", temporary.path() / "anneal-evald-link");
  temporary.write("anneal-evald-other/file", "another user's");
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown((temporary.path() / "anneal-evald-other").c_str(), 65534, 65534), 0);
  }
  RunFolder::create().reset();
  EXPECT_TRUE(fs::exists(temporary.path() / "anneal-other/file"));
  EXPECT_TRUE(fs::exists(temporary.path() / "anneal-evald-file"));
  EXPECT_TRUE(fs::exists(temporary.path() / "elsewhere"));
  EXPECT_TRUE(fs::is_symlink(temporary.path() / "anneal-evald-link"));
  if (::geteuid() == 0) {
    EXPECT_TRUE(fs::exists(temporary.path() / "anneal-evald-other/file"));
  }
}

TEST_F(RunFolders, AScratchFolderThatCannotBeMadeIsAMachineFault) {
  EXPECT_THROW(ScratchFolder("/does/not/exist", std::nullopt), MachineFault);
}

}  // namespace
}  // namespace anneal::evaluator
