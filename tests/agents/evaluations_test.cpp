#include "agents/evaluations.h"

#include <gtest/gtest.h>

#include "fakes.h"
#include "transitions/ids.h"

namespace anneal::agents {
namespace {

using namespace anneal::agents::testing;

// Judges `# ok` for `task` on the database `file`; returns how often the judge was asked for it.
long long judged_anew(const fs::path& file, const Task& task, bool policy_off,
                      std::string attempt = "00000001-0000-5000-8000-000000000000") {
  asio::io_context io(1);
  auto store = transitions::Store::open(file);
  EXPECT_TRUE(store.has_value());
  if (!store) return -1;
  TableJudge judge;
  const transitions::DeviceRow device = device_row(judge.facts());
  Evaluations evaluations(**store, judge, device.id, policy_off);
  bool ok = false;
  const auto work = [&]() -> awaitable<void> {
    auto put = co_await (*store)->put_device(device);
    EXPECT_TRUE(put.has_value());
    auto row = co_await evaluations.evaluate(task, "# ok", attempt);
    ok = row.has_value();
    auto closed = co_await (*store)->close();
    EXPECT_TRUE(closed.has_value());
  };
  asio::co_spawn(io, work(), [](std::exception_ptr error) { EXPECT_FALSE(error); });
  io.run();
  EXPECT_TRUE(ok);
  return evaluations.judged();
}

TEST(Evaluations, AChangedTaskFileOrPolicyIsJudgedAnewAndEachVerdictIsKept) {
  TemporaryFolder folder;
  const fs::path file = folder.path() / "x.db";
  Task task = make_task("a"), changed = make_task("a");
  changed.file_sha256 = sha256_hex("another reference");
  EXPECT_EQ(judged_anew(file, task, false), 1);
  EXPECT_EQ(judged_anew(file, task, false), 0);
  EXPECT_EQ(judged_anew(file, changed, false), 1);
  EXPECT_EQ(judged_anew(file, task, true), 1);
  EXPECT_EQ(judged_anew(file, changed, true), 1);
  EXPECT_EQ(judged_anew(file, task, false), 0);
  EXPECT_EQ(judged_anew(file, changed, true), 0);
}

TEST(Evaluations, ATwentiethOfTheAttemptsIsJudgedForItselfAndStaysSo) {
  TemporaryFolder folder;
  const fs::path file = folder.path() / "x.db";
  const Task task = make_task("a");
  const std::string chosen = "00000014-0000-5000-8000-000000000000";  // 0x14 = 20
  EXPECT_EQ(judged_anew(file, task, false), 1);
  EXPECT_EQ(judged_anew(file, task, false, "00000015-0000-5000-8000-000000000000"), 0);
  EXPECT_EQ(judged_anew(file, task, false, chosen), 1);
  EXPECT_EQ(judged_anew(file, task, false, chosen), 0) << "what was stored for an attempt is found again";
  EXPECT_EQ(judged_anew(file, task, false), 0);
  int judged = 0;
  for (int i = 0; i < 10000; ++i) judged += judged_for_itself(transitions::make_id({"attempt", std::to_string(i)}));
  EXPECT_GT(judged, 400);
  EXPECT_LT(judged, 600);
}

}  // namespace
}  // namespace anneal::agents
