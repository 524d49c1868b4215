#include "evaluator/daemon/tree_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>

#include "tests/temporary_folder.h"

namespace anneal::evaluator {
namespace {

constexpr std::uint64_t mib = 1 << 20;

// A child that does `act` and then sleeps until it is killed, with all that it started, at the end of the test.
class Child {
 public:
  explicit Child(const std::function<void()>& act) {
    int done[2];
    if (::pipe(done) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      act();
      [[maybe_unused]] const auto told = ::write(done[1], "x", 1);
      for (;;) ::pause();
    }
    ::setpgid(pid_, pid_);
    char ready;
    EXPECT_EQ(::read(done[0], &ready, 1), 1);
    ::close(done[0]);
    ::close(done[1]);
  }
  ~Child() {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

// Mapped and touched; never given back.
void hold(std::uint64_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) std::memset(memory, 1, bytes);
}

TEST(TreeWatch, FindsProcessesAtAnyDepth) {
  int answer[2];
  ASSERT_EQ(::pipe(answer), 0);
  const Child child([&] {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      for (;;) ::pause();
    }
    [[maybe_unused]] const auto told = ::write(answer[1], &grandchild, sizeof grandchild);
  });
  pid_t grandchild = 0;
  ASSERT_EQ(::read(answer[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  const std::vector<pid_t> found = descendants();
  EXPECT_EQ(std::count(found.begin(), found.end(), child.pid()), 1);
  EXPECT_EQ(std::count(found.begin(), found.end(), grandchild), 1);
  EXPECT_EQ(std::count(found.begin(), found.end(), ::getpid()), 0);
}

TEST(TreeWatch, EndsATreeWhoseProcessesTogetherHoldTooMuch) {
  const Child one([] { hold(60 * mib); }), other([] { hold(60 * mib); });
  EXPECT_EQ(TreeWatch(100 * mib, "", 0).exceeded(), memory_exceeded_status);
  EXPECT_EQ(TreeWatch(400 * mib, "", 0).exceeded(), std::nullopt);
}

// A fork copies nothing: what parent and children share is held once.
TEST(TreeWatch, CountsSharedPagesOnce) {
  const Child parent([] {
    hold(200 * mib);
    for (int i = 0; i < 9; ++i) {
      if (::fork() == 0) {
        for (;;) ::pause();
      }
    }
  });
  const std::vector<pid_t> tree = descendants();
  ASSERT_EQ(tree.size(), 10u);
  EXPECT_GT(memory_of(tree, ~std::uint64_t{0}), 1800 * mib) << "the cheap bound counts them for each";
  EXPECT_LT(memory_of(tree, 800 * mib), 800 * mib);
}

TEST(TreeWatch, EndsATreeThatWritesTooMuchWhereNoMountBoundsIt) {
  const test::TemporaryFolder folder;
  folder.write("a/b/one", std::string(2 * mib, 'x'));
  folder.write("a/two", std::string(2 * mib, 'x'));
  EXPECT_GE(bytes_below(folder.path(), 100 * mib), 4 * mib);
  EXPECT_EQ(TreeWatch(1000 * mib, folder.path(), 3 * mib).exceeded(), folder_exceeded_status);
  EXPECT_EQ(TreeWatch(1000 * mib, folder.path(), 5 * mib).exceeded(), std::nullopt);
}

TEST(TreeWatch, FollowsNoLinks) {
  const test::TemporaryFolder folder, elsewhere;
  elsewhere.write("large", std::string(4 * mib, 'x'));
  std::filesystem::create_symlink(elsewhere.path(), folder.path() / "link");
  EXPECT_LT(bytes_below(folder.path(), 100 * mib), mib);
}

TEST(TreeWatch, SharesTheMachineAmongCandidates) {
  const auto machine = machine_memory();
  ASSERT_TRUE(machine);
  EXPECT_GT(machine->available, 0u);
  EXPECT_LE(machine->available, machine->total);
  for (const int jobs : {1, 3, 8}) EXPECT_LE(memory_share(jobs) * static_cast<unsigned>(jobs), machine->total);
  EXPECT_LE(memory_share(1), std::uint64_t{16} << 30);
  EXPECT_GT(memory_share(8), 0u);
  const std::uint64_t share = memory_share(1);
  EXPECT_TRUE(share < 256 * mib || share % (256 * mib) == 0)
      << "the settings' hash holds it: small changes must not show";
}

// A process may end between the opening and the reading of its /proc files. That threw out of the watch, and with it
// out of the process that watches: kernels were charged with an end that was not theirs.
TEST(TreeWatch, ReadsNothingOfAProcessThatHasJustEnded) {
  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  const int file = ::open(("/proc/" + std::to_string(ended) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  ::waitpid(ended, nullptr, 0);
  EXPECT_EQ(rest_of(file), "");
  ::close(file);
}

}  // namespace
}  // namespace anneal::evaluator
