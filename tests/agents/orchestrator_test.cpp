#include "agents/orchestrator.h"

#include <gmock/gmock.h>

#include "agents/evaluations.h"
#include "fakes.h"

namespace anneal::agents {
namespace {

using namespace anneal::agents::testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string kernel(const std::string& task, const std::string& verdict, const std::string& body = "pass") {
  return "# " + verdict + "\ndef " + task + "(x):\n    " + body;
}

// Task "a" is repaired at iteration 1 and then made faster, "b" stays wrong, "c" is right at once.
std::string story(const llm::Request& request) {
  const llm::CallPlace& p = request.place;
  if (p.role == "reflector") return "Because of " + p.task + std::to_string(p.iteration) + std::to_string(p.slot) + ".";
  const std::string mark = "y = " + std::to_string(p.iteration * 10 + p.slot);
  if (p.method == "single-shot") return fenced(kernel(p.task, p.task == "c" ? "ok 1.1" : "call compile_error"));
  if (p.task == "a") {
    if (p.iteration == 0) return p.slot == 0 ? "No code here." : fenced(kernel("a", "exe tail", mark));
    if (p.iteration == 1)
      return p.slot == 0 ? fenced(kernel("a", "call runtime_error", mark)) : fenced(kernel("a", "ok 0.8", mark));
    return fenced(kernel("a", p.slot == 0 ? "ok 1.25" : "exe tail", mark));
  }
  if (p.task == "b") return fenced(kernel("b", "call compile_error", p.slot == 0 ? "same = 1" : mark));
  return fenced(kernel("c", p.iteration == 0 ? "ok" : "ok 0.5", mark));
}

ExperimentConfig both() { return make_config({make_method("single-shot"), make_method("geak", 3, 2)}); }

TEST(Geak, AsksInTheOrderOfItsIterations) {
  TemporaryFolder folder;
  const RunResult run =
      run_once(folder.path() / "x.db", make_config({make_method("geak", 3, 2)}), {make_task("a")}, story);
  ASSERT_TRUE(run.summary->has_value()) << run.summary->error().message;
  EXPECT_EQ(run.ok().done, 1);
  EXPECT_EQ(run.asked.size(), run.order.size());
  // Slot 0 of iteration 0 has no code: nothing to reflect on. The last iteration is not reflected on.
  std::vector<std::string> sorted = run.order;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_THAT(sorted, ElementsAre("a|geak|generator|0|0|0", "a|geak|generator|0|1|0", "a|geak|generator|1|0|0",
                                  "a|geak|generator|1|1|0", "a|geak|optimizer|2|0|0", "a|geak|optimizer|2|1|0",
                                  "a|geak|reflector|0|1|0", "a|geak|reflector|1|0|0", "a|geak|reflector|1|1|0"));
  const auto position = [&](const std::string& key) { return std::find(run.order.begin(), run.order.end(), key); };
  EXPECT_LT(position("a|geak|reflector|0|1|0"), position("a|geak|generator|1|0|0"));
  EXPECT_LT(position("a|geak|reflector|1|1|0"), position("a|geak|optimizer|2|0|0"));
}

TEST(Geak, DebugPromptsShowTheSlotsOwnHistory) {
  TemporaryFolder folder;
  const RunResult run =
      run_once(folder.path() / "x.db", make_config({make_method("geak", 3, 2)}), {make_task("a")}, story);
  const std::string& first = run.prompts.at("a|geak|generator|1|0|0");
  EXPECT_THAT(first, HasSubstr("The reply held no Python code block."));
  EXPECT_THAT(first, Not(HasSubstr("y = 1\n")));
  const std::string& second = run.prompts.at("a|geak|generator|1|1|0");
  EXPECT_THAT(second, HasSubstr("    y = 1\n"));
  EXPECT_THAT(second, HasSubstr("exe failed: tail: case one (standard)"));
  EXPECT_THAT(second, HasSubstr("Because of a01."));
  EXPECT_THAT(second, HasSubstr("a(x: Tensor) -> Tensor"));
}

TEST(Geak, OptimizerPromptsShowThePoolAndItsMembersAreTheParents) {
  TemporaryFolder folder;
  const fs::path file = folder.path() / "x.db";
  const RunResult run = run_once(file, make_config({make_method("geak", 3, 2)}), {make_task("a")}, story);
  const std::string& prompt = run.prompts.at("a|geak|optimizer|2|0|0");
  EXPECT_THAT(prompt, HasSubstr("y = 11"));
  EXPECT_THAT(prompt, HasSubstr("0.8 times the speed of PyTorch eager (SLOW)"));
  EXPECT_THAT(prompt, Not(HasSubstr("y = 10")));
  EXPECT_THAT(
      rows(file,
           "SELECT c.iteration, c.slot, c.mode, p.iteration, p.slot FROM attempt_parent JOIN attempt c ON c.id = "
           "attempt_parent.attempt JOIN attempt p ON p.id = attempt_parent.parent ORDER BY 1, 2, 4, 5"),
      ElementsAre("1|0|debug|0|0", "1|1|debug|0|1", "2|0|optimise|1|1", "2|1|optimise|1|1"));
}

TEST(Geak, TheFastestKernelStaysInThePoolAndUnmeasuredOnesComeLast) {
  TemporaryFolder folder;
  const Script script = [](const llm::Request& request) {
    const llm::CallPlace& p = request.place;
    if (p.role == "reflector") return std::string("Fine.");
    const std::string verdict =
        p.iteration == 0 ? (p.slot == 0 ? "ok 3.0" : "ok") : "ok 1." + std::to_string(p.iteration);
    return fenced(kernel("a", verdict, "y = " + std::to_string(p.iteration * 10 + p.slot)));
  };
  const RunResult run =
      run_once(folder.path() / "x.db", make_config({make_method("geak", 5, 2)}), {make_task("a")}, script);
  const std::string& prompt = run.prompts.at("a|geak|optimizer|4|0|0");
  EXPECT_THAT(prompt, HasSubstr("### Kernel 1: 3.0 times"));
  EXPECT_THAT(prompt, HasSubstr("### Kernel 5: "));
  EXPECT_THAT(prompt, Not(HasSubstr("### Kernel 6")));
  EXPECT_THAT(prompt, Not(HasSubstr("not measured")));  // six others are measured
  EXPECT_THAT(run.prompts.at("a|geak|optimizer|1|0|0"), HasSubstr("### Kernel 2: speed not measured on this device"));
}

TEST(Geak, AnApiErrorInOneSlotLetsTheOthersGoOnAndIsAskedAgainOnRequest) {
  TemporaryFolder folder;
  const fs::path file = folder.path() / "x.db";
  bool down = true;
  const Script script = [&down](const llm::Request& request) {
    const llm::CallPlace& p = request.place;
    if (p.role == "reflector") return std::string("Fine.");
    if (p.slot == 1 && p.iteration == 0 && down) return std::string("!");
    return fenced(kernel("a", "call compile_error", "y = " + std::to_string(p.iteration * 10 + p.slot)));
  };
  const ExperimentConfig config = make_config({make_method("geak", 2, 2)});
  const RunResult first = run_once(file, config, {make_task("a")}, script);
  EXPECT_EQ(first.ok().failed, 1);
  EXPECT_THAT(first.ok().failures.at(0), HasSubstr("1 reply did not arrive: 503 from the server"));
  EXPECT_THAT(rows(file, "SELECT iteration, slot, reply_class FROM attempt ORDER BY 1, 2"),
              ElementsAre("0|0|ok", "0|1|api_error", "1|0|ok", "1|1|ok"));
  EXPECT_THAT(first.prompts.at("a|geak|generator|1|1|0"), HasSubstr("No reply was received."));

  down = false;
  const RunResult second = run_once(file, config, {make_task("a")}, script);
  EXPECT_EQ(second.ok().failed, 1);
  EXPECT_EQ(second.ok().lost_replies, 1);
  EXPECT_TRUE(second.asked.empty());
  RunOptions retry;
  retry.retry_errors = true;
  const RunResult third = run_once(file, config, {make_task("a")}, script, retry);
  EXPECT_EQ(third.ok().done, 1);
  EXPECT_EQ(third.ok().lost_replies, 0);
  EXPECT_EQ(third.asked.count("a|geak|generator|0|1|1"), 1u);
}

TEST(Geak, RetryErrorsEndsARunThatStoppedAfterAnyStoreCall) {
  TemporaryFolder folder;
  bool down = true;
  const Script script = [&down](const llm::Request& request) {
    const llm::CallPlace& p = request.place;
    if (p.role == "reflector") return std::string("Fine.");
    if (p.slot == 1 && p.iteration == 0 && down) return std::string("!");
    return fenced(kernel("a", "call compile_error", "y = " + std::to_string(p.iteration * 10 + p.slot)));
  };
  const ExperimentConfig config = make_config({make_method("geak", 3, 2)});
  const long calls = run_once(folder.path() / "whole.db", config, {make_task("a")}, script).store_calls;
  RunOptions retry;
  retry.retry_errors = true;
  for (long stop = 0; stop < calls; ++stop) {
    const fs::path file = folder.path() / (std::to_string(stop) + ".db");
    down = true;
    run_once(file, config, {make_task("a")}, script, {}, stop);
    down = false;
    const RunResult retried = run_once(file, config, {make_task("a")}, script, retry);
    ASSERT_TRUE(retried.summary->has_value()) << stop << ": " << retried.summary->error().message;
    ASSERT_EQ(retried.ok().done, 1) << stop << ": " << retried.ok().failures.at(0);
    EXPECT_EQ(run_once(file, config, {make_task("a")}, script).ok().found_done, 1) << stop;
    EXPECT_THAT(rows(file, "SELECT count(*) FROM attempt WHERE reply_class = 'ok'"), ElementsAre("6")) << stop;
  }
}

TEST(Orchestrator, RunsBothMethodsAndASecondRunDoesNothing) {
  TemporaryFolder folder;
  const fs::path file = folder.path() / "x.db";
  const std::vector<Task> tasks = {make_task("a"), make_task("b"), make_task("c")};
  const RunResult first = run_once(file, both(), tasks, story);
  ASSERT_TRUE(first.summary->has_value()) << first.summary->error().message;
  EXPECT_EQ(first.ok().planned, 6);
  EXPECT_EQ(first.ok().done, 6);
  EXPECT_EQ(first.ok().attempts, 3 + 3 * 6);
  for (const auto& [place, times] : first.asked) EXPECT_EQ(times, 1) << place;
  EXPECT_EQ(first.events.front().at("event"), "run_started");
  EXPECT_EQ(first.events.back().at("event"), "run_finished");

  const RunResult second = run_once(file, both(), tasks, story);
  EXPECT_EQ(second.ok().found_done, 6);
  EXPECT_EQ(second.ok().done, 0);
  EXPECT_TRUE(second.asked.empty());
  EXPECT_TRUE(second.judged.empty());
}

TEST(Orchestrator, JudgesTheSameCodeOnce) {
  TemporaryFolder folder;
  const RunResult run = run_once(folder.path() / "x.db", both(), {make_task("b")}, story);
  for (const auto& [code, times] : run.judged) EXPECT_EQ(times, 1) << code;
  // geak's slot 0 gives the same kernel three times, its slot 1 three different ones, single-shot one more.
  EXPECT_EQ(run.judged.size(), 5u);
  EXPECT_EQ(run.ok().judged, 5);
  EXPECT_EQ(run.ok().verdicts_found, 2);
}

TEST(Orchestrator, SharesAnEvaluationThatIsInFlight) {
  TemporaryFolder folder;
  const Script script = [](const llm::Request&) { return fenced(kernel("a", "ok")); };
  const RunResult run =
      run_once(folder.path() / "x.db", make_config({make_method("single-shot", 1, 1, 20)}), {make_task("a")}, script);
  EXPECT_EQ(run.ok().done, 20);
  // Some are judged for themselves; which ones, their ids say.
  long long own = 0;
  for (const nlohmann::json& event : run.events) {
    own += event.at("event") == "attempt" && judged_for_itself(event.at("attempt").get<std::string>());
  }
  EXPECT_EQ(run.ok().judged, 1 + own);
  EXPECT_EQ(run.ok().verdicts_found, 19 - own);
}

TEST(Orchestrator, AMachineFaultFailsTheTrajectoryAndTheNextRunDoesItAgain) {
  TemporaryFolder folder;
  const fs::path file = folder.path() / "x.db";
  const Script faulty = [](const llm::Request& request) {
    return fenced(kernel(request.place.task, request.place.task == "a" ? "fault" : "ok"));
  };
  const ExperimentConfig config = make_config({make_method("single-shot")});
  const RunResult first = run_once(file, config, {make_task("a"), make_task("b")}, faulty);
  EXPECT_EQ(first.ok().failed, 1);
  EXPECT_EQ(first.ok().done, 1);
  EXPECT_THAT(first.ok().failures.at(0), HasSubstr("a, single-shot@scripted, seed 0: the judge was lost"));
  EXPECT_THAT(rows(file, "SELECT count(*) FROM attempt"), ElementsAre("1"));
  const RunResult second = run_once(file, config, {make_task("a"), make_task("b")}, faulty);
  EXPECT_EQ(second.ok().found_done, 1);
  EXPECT_EQ(second.ok().failed, 1);
  EXPECT_TRUE(second.asked.empty()) << "the stored reply is used";
}

TEST(Orchestrator, ChangingWhatTrajectoriesRanWithNamesTheKey) {
  TemporaryFolder folder;
  const fs::path file = folder.path() / "x.db";
  run_once(file, make_config({make_method("geak", 2, 1)}), {make_task("c")}, story);
  const RunResult more = run_once(file, make_config({make_method("geak", 3, 1)}), {make_task("c")}, story);
  ASSERT_FALSE(more.summary->has_value());
  EXPECT_EQ(more.summary->error().kind, ErrorKind::bad_input);
  EXPECT_THAT(more.summary->error().message, HasSubstr("iterations"));
}

TEST(Orchestrator, AnotherDeviceModelIsRefusedForOldAndNewTrajectories) {
  TemporaryFolder folder;
  const fs::path file = folder.path() / "x.db";
  const ExperimentConfig config = make_config({make_method("single-shot")});
  run_once(file, config, {make_task("c")}, story, {}, 1L << 40, "NVIDIA H200");
  for (const char* task : {"c", "b"}) {
    const RunResult other = run_once(file, config, {make_task(task)}, story, {}, 1L << 40, "NVIDIA A100");
    ASSERT_FALSE(other.summary->has_value());
    EXPECT_EQ(other.summary->error().kind, ErrorKind::bad_input);
    EXPECT_THAT(other.summary->error().message, HasSubstr("`device_name`"));
    EXPECT_TRUE(other.asked.empty());
  }
  EXPECT_EQ(run_once(file, config, {make_task("c")}, story, {}, 1L << 40, "NVIDIA H200").ok().found_done, 1);
}

TEST(Orchestrator, AddingTasksAndSeedsGoesOn) {
  TemporaryFolder folder;
  const fs::path file = folder.path() / "x.db";
  run_once(file, make_config({make_method("single-shot")}), {make_task("c")}, story);
  const RunResult more =
      run_once(file, make_config({make_method("single-shot", 1, 1, 2)}), {make_task("b"), make_task("c")}, story);
  EXPECT_EQ(more.ok().planned, 4);
  EXPECT_EQ(more.ok().found_done, 1);
  EXPECT_EQ(more.ok().done, 3);
}

TEST(Orchestrator, AnotherExperimentsDatabaseIsRefused) {
  TemporaryFolder folder;
  const fs::path file = folder.path() / "x.db";
  ExperimentConfig config = make_config({make_method("single-shot")});
  run_once(file, config, {make_task("c")}, story);
  config.experiment = "other";
  const RunResult other = run_once(file, config, {make_task("c")}, story);
  ASSERT_FALSE(other.summary->has_value());
  EXPECT_THAT(other.summary->error().message, HasSubstr("holds the experiment 'test', not 'other'"));
}

TEST(Orchestrator, ASpentTokenBudgetStopsAndIsGoneOnWithWhenRaised) {
  TemporaryFolder folder;
  const fs::path file = folder.path() / "x.db";
  ExperimentConfig config = make_config({make_method("geak", 3, 1)});
  config.budget.tokens = 220;  // two calls of 110
  const RunResult first = run_once(file, config, {make_task("c")}, story);
  EXPECT_TRUE(first.ok().budget_spent);
  EXPECT_EQ(first.ok().done, 0);
  EXPECT_EQ(first.order.size(), 2u);
  config.budget.tokens = 100'000;
  RunOptions options;
  options.tokens_before = 220;
  const RunResult second = run_once(file, config, {make_task("c")}, story, options);
  EXPECT_FALSE(second.ok().budget_spent);
  EXPECT_EQ(second.ok().done, 1);
  EXPECT_EQ(second.order.size(), 3u);
}

TEST(Orchestrator, AStoredReplyIsJudgedEvenWhenTheBudgetIsSpent) {
  TemporaryFolder folder;
  ExperimentConfig config = make_config({make_method("single-shot", 1, 1)});
  config.budget.tokens = 1;
  RunOptions spent;
  spent.tokens_before = 1;
  int kept = 0;
  for (long stop = 0; stop < 20; ++stop) {
    const fs::path file = folder.path() / (std::to_string(stop) + ".db");
    const RunResult stopped = run_once(file, config, {make_task("a")}, story, {}, stop);
    const bool answered = !stopped.answered.empty() && stopped.answered.begin()->second > 0;
    const RunResult resumed = run_once(file, config, {make_task("a")}, story, spent);
    EXPECT_TRUE(resumed.asked.empty()) << stop;
    EXPECT_EQ(rows(file, "SELECT id FROM attempt").size(), answered ? 1u : 0u) << stop;
    kept += answered && !resumed.judged.empty();
  }
  EXPECT_GT(kept, 0) << "no stop lay between the stored reply and its attempt";
}

TEST(Orchestrator, ATokenBudgetIsAnErrorWhereTheServerCountsNoTokens) {
  TemporaryFolder folder;
  ExperimentConfig config = make_config({make_method("geak", 3, 1)});
  config.budget.tokens = 1000;
  const Script silent = [](const llm::Request& request) { return "?" + story(request); };
  const RunResult run = run_once(folder.path() / "x.db", config, {make_task("c")}, silent);
  EXPECT_EQ(run.ok().failed, 1);
  EXPECT_EQ(run.order.size(), 1u);
  ASSERT_EQ(run.ok().failures.size(), 1u);
  EXPECT_NE(run.ok().failures[0].find("sends no token counts"), std::string::npos) << run.ok().failures[0];
  EXPECT_EQ(run.ok().uncounted_model, "scripted");

  // A later run knows it before it asks.
  RunOptions known;
  known.uncounted_model = "scripted";
  const RunResult again = run_once(folder.path() / "x.db", config, {make_task("c")}, silent, known);
  EXPECT_TRUE(again.order.empty());
  EXPECT_EQ(again.ok().failed, 1);
}

TEST(Orchestrator, NoKernelIsJudgedOnceTheStoreHasFailed) {
  TemporaryFolder folder;
  std::vector<Task> tasks;
  for (const char* id : {"a", "b", "c", "d", "e", "f", "g", "h"}) tasks.push_back(make_task(id));
  const ExperimentConfig config = make_config({make_method("single-shot")});
  const auto run_until = [&](long stop) {
    return run_once(folder.path() / (std::to_string(stop) + ".db"), config, tasks, story, {}, stop, "", 1);
  };
  const RunResult whole = run_until(1L << 40);
  ASSERT_EQ(whole.judged.size(), 8u);
  int while_kernels_waited = 0;
  for (long stop = 0; stop < whole.store_calls; stop += 3) {
    const RunResult run = run_until(stop);
    EXPECT_FALSE(run.summary->has_value()) << stop;
    EXPECT_LE(run.judged.size(), run.judged_at_the_stop + 1) << stop;  // one may begin before the others are told
    while_kernels_waited += run.judged_at_the_stop > 0 && run.judged_at_the_stop < 7;
  }
  EXPECT_GT(while_kernels_waited, 0) << "the store never failed while kernels waited to be judged";
}

TEST(Orchestrator, ARunStoppedAfterAnyStoreCallEndsWithTheSameRowsAndAsksNothingTwice) {
  TemporaryFolder folder;
  const std::vector<Task> tasks = {make_task("a"), make_task("b")};
  const fs::path whole = folder.path() / "whole.db";
  const RunResult undisturbed = run_once(whole, both(), tasks, story);
  ASSERT_EQ(undisturbed.ok().done, 4);
  const std::string expected = canonical_export(whole);
  const std::string query =
      "SELECT a.id, a.reply_class, a.mode, ifnull(a.evaluation, ''), (SELECT group_concat(parent, ',') FROM (SELECT "
      "parent "
      "FROM attempt_parent WHERE attempt = a.id ORDER BY parent)) FROM attempt a ORDER BY a.id";
  const auto expected_rows = rows(whole, query);
  ASSERT_EQ(expected_rows.size(), 14u);
  for (long stop = 0; stop < undisturbed.store_calls; stop += 3) {
    const fs::path file = folder.path() / (std::to_string(stop) + ".db");
    const RunResult stopped = run_once(file, both(), tasks, story, {}, stop);
    const RunResult resumed = run_once(file, both(), tasks, story);
    ASSERT_TRUE(resumed.summary->has_value()) << stop << ": " << resumed.summary->error().message;
    EXPECT_EQ(resumed.ok().done + resumed.ok().found_done, 4) << stop;
    EXPECT_EQ(rows(file, query), expected_rows) << stop;
    EXPECT_EQ(canonical_export(file), expected) << stop;
    for (const auto& [place, times] : stopped.answered) {
      if (times > 0) {
        EXPECT_EQ(resumed.asked.count(place), 0u) << stop << " " << place;
      }
    }
  }
}

TEST(Plan, ShardsPartTheTasksAndKeepEachTaskWhole) {
  const ExperimentConfig config = both();
  const std::vector<Task> tasks = {make_task("a"), make_task("b"), make_task("c")};
  std::multiset<std::string> seen;
  for (int index = 1; index <= 2; ++index) {
    for (const auto& planned : plan_trajectories(config, tasks, Shard{index, 2})) seen.insert(planned.task.id);
  }
  EXPECT_EQ(seen, (std::multiset<std::string>{"a", "a", "b", "b", "c", "c"}));
  EXPECT_EQ(plan_trajectories(config, tasks, Shard{2, 2}).size(), 2u);
}

}  // namespace
}  // namespace anneal::agents
