#include "evaluator/daemon/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "evaluator/daemon/fault.h"
#include "evaluator/daemon/zygote.h"

namespace anneal::evaluator {
namespace {

using nlohmann::json;

// "stuck" leaves a kernel on the device; "fault" is the machine's; all else is judged.
class FakeJudge : public Judge {
 public:
  Verdict evaluate(const EvaluationOrder& order) override {
    if (order.code == "stuck") usable_ = false;
    if (order.code == "stuck" || order.code == "fault") throw MachineFault(order.code);
    Verdict verdict;
    verdict.task = order.task;
    return verdict;
  }
  LintReport lint(const std::string& task) override {
    LintReport report;
    report.task = task;
    return report;
  }
  const JudgeFacts& facts() const override { return facts_; }
  bool usable() const override { return usable_; }

 private:
  JudgeFacts facts_;
  std::atomic<bool> usable_{true};
};

// What was sent, by one worker, so in order.
struct Sent {
  std::mutex mutex;
  std::condition_variable arrived;
  std::vector<json> messages;

  void add(const json& message) {
    const std::lock_guard lock(mutex);
    messages.push_back(message);
    arrived.notify_all();
  }
  std::vector<json> first(std::size_t count) {
    std::unique_lock lock(mutex);
    arrived.wait_for(lock, std::chrono::seconds(20), [&] { return messages.size() >= count; });
    return messages;
  }
};

json evaluate(int id, const std::string& code) {
  return {{"type", "evaluate"}, {"id", id}, {"task", "mul"}, {"code", code}, {"stages", {"call", "exe"}}};
}

TEST(Server, AnswersEveryEvaluationAndEndsWhenAskedTo) {
  FakeJudge judge;
  Sent sent;
  Server server([&](const json& message) { sent.add(message); }, judge, 1);
  EXPECT_TRUE(server.take(evaluate(1, "good")));
  EXPECT_TRUE(server.take(evaluate(2, "fault")));
  const auto messages = sent.first(2);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].at("type"), "verdict");
  EXPECT_EQ(messages[0].at("verdict").at("task"), "mul");
  EXPECT_EQ(messages[1], json({{"type", "fault"}, {"id", 2}, {"message", "fault"}}));
  EXPECT_FALSE(server.take({{"type", "shutdown"}}));
}

TEST(Server, JudgesNothingMoreOnADeviceWithAKernelThatCannotBeKilledAndSaysSoOnce) {
  FakeJudge judge;
  Sent sent;
  Server server([&](const json& message) { sent.add(message); }, judge, 1);
  for (const json& order : {evaluate(1, "good"), evaluate(2, "stuck"), evaluate(3, "good"), evaluate(4, "good")}) {
    server.take(order);
  }
  const auto messages = sent.first(5);
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages[0].at("type"), "verdict");
  EXPECT_EQ(messages[1].at("type"), "fault");
  EXPECT_EQ(messages[2].at("type"), "fatal");
  EXPECT_EQ(messages[2].at("kind"), "unusable");
  for (const std::size_t later : {3, 4}) {
    EXPECT_EQ(messages[later].at("type"), "fault");
    EXPECT_EQ(messages[later].at("id"), later);
    EXPECT_THAT(messages[later].at("message").get<std::string>(), testing::HasSubstr("could not be killed"));
  }
}

TEST(ZygoteClient, SaysThatTheZygoteIsLostAndAsksItNothingMore) {
  auto [mine, theirs] = Channel::pair();
  ZygoteClient zygote(std::move(mine), SandboxAbilities());
  int losses = 0;
  zygote.on_loss([&] { ++losses; });
  theirs = Channel();
  EXPECT_THROW(zygote.spawn({}), std::runtime_error);
  EXPECT_EQ(losses, 1);
  EXPECT_THROW(zygote.spawn({}), std::runtime_error);
  EXPECT_EQ(losses, 2);
}

TEST(ZygoteClient, IsStuckForEverOnceACandidateDoesNotDie) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t unkillable = ::fork();
  if (unkillable == 0) {
    ::signal(SIGTERM,
             SIG_IGN);  // without namespaces an init is ended by SIGTERM: this one stands for a process that stays
    [[maybe_unused]] const auto told = ::write(ready[1], "x", 1);
    for (;;) ::pause();
  }
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  auto [mine, theirs] = Channel::pair();
  ZygoteClient zygote(std::move(mine), SandboxAbilities(), std::chrono::milliseconds(100));
  Spawned spawned;
  spawned.pid = unkillable;
  spawned.init = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, unkillable, 0)));
  EXPECT_FALSE(zygote.stuck());
  EXPECT_EQ(zygote.kill_and_reap(spawned), std::nullopt);
  EXPECT_TRUE(zygote.stuck());
  ::kill(unkillable, SIGKILL);
  ::waitpid(unkillable, nullptr, 0);
}

}  // namespace
}  // namespace anneal::evaluator
