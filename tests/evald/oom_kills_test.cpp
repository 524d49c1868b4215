#include "evaluator/daemon/oom_kills.h"

#include <gtest/gtest.h>

#include "tests/temporary_folder.h"

namespace anneal::evaluator {
namespace {

struct OomKillsTest : testing::Test {
  void write(const std::string& path, const std::string& text) const { folder.write(path, text); }
  OomKills read() const { return oom_kills(folder.path().string()); }

  test::TemporaryFolder folder;
};

TEST_F(OomKillsTest, ReadsTheMachinesCount) {
  write("proc/vmstat", "pgfault 12\noom_kill_disable 9\noom_kill 7\n");
  EXPECT_EQ(read(), (OomKills{0, 7}));
}

TEST_F(OomKillsTest, ReadsTheCountOfItsOwnCgroup) {
  write("proc/self/cgroup", "0::/jobs/one\n");
  write("sys/fs/cgroup/jobs/one/memory.events", "max 9\noom 4\noom_kill 3\noom_group_kill 1\n");
  write("sys/fs/cgroup/jobs/two/memory.events", "oom_kill 99\n");
  EXPECT_EQ(read(), (OomKills{3, 0}));
}

TEST_F(OomKillsTest, ReadsTheRootThatAContainerSees) {
  write("proc/self/cgroup", "0::/../../host/path\n");
  write("sys/fs/cgroup/memory.events", "oom_kill 2\n");
  EXPECT_EQ(read(), (OomKills{2, 0}));
}

TEST_F(OomKillsTest, ReadsVersionOne) {
  write("proc/self/cgroup", "11:memory:/a\n10:cpu,cpuacct:/b\n");
  write("sys/fs/cgroup/memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
  EXPECT_EQ(read(), (OomKills{5, 0}));
}

TEST_F(OomKillsTest, WhatTheKernelDoesNotTellIsZero) { EXPECT_EQ(read(), OomKills()); }

}  // namespace
}  // namespace anneal::evaluator
