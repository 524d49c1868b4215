#include "transitions/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/temporary_folder.h"
#include "transitions/database.h"
#include "transitions/export.h"
#include "transitions/harvest.h"
#include "transitions/ids.h"
#include "transitions/inspect.h"
#include "transitions/report.h"

namespace anneal::transitions {
namespace {

using testing::HasSubstr;

class StoreTest : public testing::Test {
 protected:
  void open() {
    Result<std::unique_ptr<Store>> store = Store::open(file_);
    ASSERT_TRUE(store) << store.error().message;
    store_ = *std::move(store);
  }

  template <class T>
  T wait(boost::asio::awaitable<T> work) {
    std::future<T> result = boost::asio::co_spawn(io_, std::move(work), boost::asio::use_future);
    io_.restart();
    io_.run();
    return result.get();
  }

  void ok(boost::asio::awaitable<Result<void>> work) {
    const Result<void> result = wait(std::move(work));
    ASSERT_TRUE(result) << result.error().message;
  }

  // One experiment, task, device and trajectory.
  void base() {
    open();
    ok(store_->put_experiment({"e", "demo", "anneal", "yaml", "{}", "{}"}));
    TaskRow task;
    task.id = "gelu";
    task.category = "Activation";
    ok(store_->put_task(task));
    ok(store_->put_device({"d", "cpu", "interpreter", "{}"}));
    ok(store_->put_trajectory({"t", "e", "gelu", "geak", "m", 0, R"({"iterations":3})"}));
  }

  void attempt(const std::string& id, int iteration, const std::string& code, bool call, bool correct,
               std::optional<double> speedup, std::vector<std::string> parents, std::string normalised = "") {
    AttemptRow row;
    row.normalised_sha256 = normalised;
    row.id = id;
    row.trajectory = "t";
    row.iteration = iteration;
    row.reply_class = code.empty() ? "no_code" : "ok";
    row.code = code;
    row.parents = std::move(parents);
    if (!code.empty()) {
      EvaluationRow e;
      e.id = "e-" + id;
      e.device = "d";
      e.normalised_sha256 = "n";
      e.task_sha256 = "f";
      e.verdict.task = "gelu";
      e.verdict.settings_sha256 = "s";
      e.verdict.call.ok = call;
      e.verdict.call.failure_class = call ? "ok" : "compile_error";
      e.verdict.exe.ok = e.verdict.exe.strict_ok = e.verdict.accepted = correct;
      e.verdict.exe.failure_class = correct ? "ok" : "tail";
      e.verdict.feedback = "see \x1b[31mred";
      if (speedup) {
        e.verdict.perf.status = "measured";
        e.verdict.perf.speedup = speedup;
        e.verdict.perf.ci = evaluator::Interval{*speedup - 0.05, *speedup + 0.05};
      }
      ok(store_->put_evaluation(e));
      row.evaluation = e.id;
    }
    ok(store_->put_attempt(row));
  }

  // The report of a store whose only attempt has this evaluation. Closes the store.
  nlohmann::json report_of_one(const EvaluationRow& evaluation) {
    ok(store_->put_evaluation(evaluation));
    AttemptRow row;
    row.id = "dddd0";
    row.trajectory = "t";
    row.reply_class = "ok";
    row.code = "x = 1\n";
    row.evaluation = evaluation.id;
    ok(store_->put_attempt(row));
    ok(store_->close());
    store_.reset();
    return report({file_}).value();
  }

  llm::Request request() {
    llm::Request r;
    r.id = "call";
    r.trajectory = "t";
    r.place = {"gelu", "geak", "generator", 1, 0, 0, 0};
    r.model = "m";
    r.messages = {{"user", "write it"}};
    return r;
  }

  test::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_.path() / "x.db";
  boost::asio::io_context io_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, KeepsTheFirstOkReplyAcrossReopening) {
  base();
  ok(store_->begin_call(request(), "h"));
  EXPECT_FALSE(wait(store_->find_reply("call", "h")).value());
  llm::Reply reply;
  reply.error = "503";
  reply.attempts = 6;
  ok(store_->finish_call("call", reply));
  EXPECT_FALSE(wait(store_->find_reply("call", "h")).value());
  reply.ok = true;
  reply.attempts = 2;
  reply.text = "first";
  reply.usage.prompt_tokens = 7;
  ok(store_->finish_call("call", reply));
  reply.text = "second";
  ok(store_->finish_call("call", reply));
  ok(store_->close());
  store_.reset();
  open();
  const std::optional<llm::Reply> found = wait(store_->find_reply("call", "h")).value();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, "first");
  EXPECT_EQ(found->attempts, 8) << "those of the call that failed, and of the one that did not";
  EXPECT_EQ(found->usage.prompt_tokens, 7);
  EXPECT_FALSE(found->usage.cached_tokens);
}

TEST_F(StoreTest, ACallThatWasNeverAnsweredMayBeMadeWithAnotherPrompt) {
  base();
  ok(store_->begin_call(request(), "h"));
  EXPECT_FALSE(wait(store_->find_reply("call", "other")).value());
  llm::Request changed = request();
  changed.messages = {{"user", "write it otherwise"}};
  ok(store_->begin_call(changed, "other"));
  llm::Reply reply;
  reply.ok = true;
  reply.text = "answer";
  ok(store_->finish_call("call", reply));
  EXPECT_EQ(wait(store_->find_reply("call", "other")).value()->text, "answer");
  EXPECT_FALSE(wait(store_->find_reply("call", "h")));
}

TEST_F(StoreTest, NamesTheCallWhosePromptChanged) {
  base();
  ok(store_->begin_call(request(), "h"));
  llm::Reply reply;
  reply.ok = true;
  ok(store_->finish_call("call", reply));
  const auto found = wait(store_->find_reply("call", "other"));
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("task gelu, method geak, iteration 1"));
}

TEST_F(StoreTest, NamesTheSettingThatChanged) {
  base();
  const Result<void> again = wait(store_->put_trajectory({"t", "e", "gelu", "geak", "m", 0, R"({"iterations":4})"}));
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, HasSubstr("`iterations`"));
  ok(store_->put_trajectory({"t", "e", "gelu", "geak", "m", 0, R"({ "iterations": 3 })"}));
}

TEST_F(StoreTest, AnotherDeviceModelOrJudgeOfAnExperimentIsAnErrorThatSaysWhatToDo) {
  base();
  const auto row = [](const char* id, const char* device, const char* settings) {
    const nlohmann::json json = {{"iterations", 3}, {"device_name", device}, {"settings_sha256", settings}};
    return TrajectoryRow{id, "e", "gelu", "geak", "m", 0, json.dump()};
  };
  ok(store_->put_trajectory(row("t", "NVIDIA H200", "s")));  // base() put it without: taken over
  ok(store_->put_trajectory(row("t", "NVIDIA H200", "s")));
  ok(store_->put_trajectory(row("u", "NVIDIA H200", "s")));
  for (const char* id : {"t", "new"}) {
    const Result<void> other = wait(store_->put_trajectory(row(id, "NVIDIA A100", "s")));
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().kind, ErrorKind::bad_input);
    EXPECT_THAT(other.error().message, HasSubstr("'NVIDIA H200' (`device_name`)"));
    EXPECT_THAT(other.error().message, HasSubstr("'NVIDIA A100'"));
    EXPECT_THAT(other.error().message, HasSubstr("another --db"));
    EXPECT_THAT(other.error().message, HasSubstr("--set device="));
    EXPECT_THAT(wait(store_->put_trajectory(row(id, "NVIDIA H200", "x"))).error().message,
                HasSubstr("`settings_sha256`"));
  }
}

TEST_F(StoreTest, OtherPromptsThanAnExperimentBeganWithAreAnError) {
  base();
  const auto row = [](const char* id, const char* prompts) {
    const nlohmann::json json = {{"iterations", 3}, {"device_name", "cpu"}, {"prompts_sha256", prompts}};
    return TrajectoryRow{id, "e", "gelu", "geak", "m", 0, json.dump()};
  };
  ok(store_->put_trajectory(row("t", "a")));
  ok(store_->put_trajectory(row("u", "a")));
  const Result<void> other = wait(store_->put_trajectory(row("new", "b")));
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("Put prompts/ back as it was, or choose another --db"));
}

// The tables of schema version 1 with one judged trajectory.
TEST_F(StoreTest, AFileOfSchemaOneIsMigratedAndKeepsWhatItsTrajectoriesRanWith) {
  base();
  attempt("a0", 0, "x = 1\n", true, true, 1.5, {});
  ok(store_->close());
  store_.reset();
  {
    SQLite::Database db(file_.string(), SQLite::OPEN_READWRITE);
    db.exec(
        "ALTER TABLE evaluation DROP COLUMN policy_off; ALTER TABLE evaluation DROP COLUMN task_sha256;"
        "UPDATE task SET file_sha256 = 'of the file'; PRAGMA user_version = 1");
  }
  open();
  EXPECT_EQ(wait(store_->find_evaluation("e-a0")).value()->task_sha256, "of the file");
  const Result<void> other =
      wait(store_->put_trajectory({"new", "e", "gelu", "geak", "m", 1, R"({"device_name":"NVIDIA H200"})"}));
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("'interpreter' (`device_name`)"));
}

TEST_F(StoreTest, TheFlakyRateComparesVerdictsOfTheSameCode) {
  base();
  attempt("a0", 0, "x = 1\n", true, true, 1.5, {}, "one");
  attempt("a1", 1, "x = 1 # again\n", true, true, 1.5, {"a0"}, "one");
  attempt("a2", 2, "x = 1\n", true, false, {}, {"a1"}, "one");
  attempt("a3", 3, "y = 1\n", true, false, {}, {"a1"}, "two");
  ok(store_->close());
  store_.reset();
  const nlohmann::json flaky = report({file_}).value()["flaky_rate"];
  EXPECT_EQ(flaky["of"], 2);
  EXPECT_EQ(flaky["count"], 1);
}

TEST_F(StoreTest, RoundTripsAttemptsEvaluationsAndStates) {
  base();
  attempt("a0", 0, "x = 1\n", true, true, 1.5, {});
  attempt("a1", 1, "x = 2\n", true, true, 2.0, {"a0"});
  attempt("a1", 1, "changed\n", true, true, 2.0, {});  // ignored: rows are immutable
  const AttemptRow row = wait(store_->find_attempt("a1")).value().value();
  EXPECT_EQ(row.code, "x = 2\n");
  EXPECT_EQ(row.parents, std::vector<std::string>{"a0"});
  EXPECT_EQ(*wait(store_->find_evaluation("e-a0")).value()->verdict.perf.speedup, 1.5);
  ok(store_->put_event("t", "trajectory_started", "{}"));
  EXPECT_EQ(wait(store_->trajectory_states()).value()[0].state, "running");
  ok(store_->put_event("t", "trajectory_failed", R"({"reason":"lost"})"));
  EXPECT_EQ(wait(store_->trajectory_states()).value()[0].state, "failed: lost");
  ok(store_->put_event("t", "trajectory_done", "{}"));
  EXPECT_EQ(wait(store_->trajectory_states()).value()[0].state, "done");
}

TEST_F(StoreTest, RefusesASecondWriter) {
  open();
  const auto second = Store::open(file_);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("in use by another run"));
}

TEST_F(StoreTest, RefusesNewerForeignAndBrokenFiles) {
  {
    SQLite::Database db(file_.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    db.exec("CREATE TABLE t (x)");
  }
  EXPECT_THAT(Store::open(file_).error().message, HasSubstr("another application"));
  std::filesystem::remove(file_);
  open();
  store_.reset();
  {
    SQLite::Database db(file_.string(), SQLite::OPEN_READWRITE);
    db.exec("PRAGMA user_version = 99");
  }
  const Error newer = Store::open(file_).error();
  EXPECT_EQ(newer.kind, ErrorKind::missing);
  EXPECT_THAT(newer.message, HasSubstr("version 99"));
  EXPECT_THAT(newer.message, HasSubstr("version " + std::to_string(kSchemaVersion)));
  std::filesystem::remove(file_);
  std::ofstream(file_) << std::string(5000, 'x');
  EXPECT_THAT(Store::open(file_).error().message, HasSubstr("not a SQLite database"));
  EXPECT_EQ(Store::open("/proc/none/x.db").error().kind, ErrorKind::missing);
}

TEST_F(StoreTest, AFolderAndAMistypedPathAreNamedAndNothingIsMade) {
  std::filesystem::create_directory(file_);
  const Error folder = Store::open(file_).error();
  EXPECT_EQ(folder.kind, ErrorKind::missing);
  EXPECT_THAT(folder.message, HasSubstr("is a folder"));
  const Error mistyped = Store::open(folder_.path() / "rnus" / "x.db").error();
  EXPECT_EQ(mistyped.kind, ErrorKind::missing);
  EXPECT_THAT(mistyped.message, HasSubstr("rnus does not exist"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "rnus"));
}

TEST_F(StoreTest, AFullDiskIsNamedAndTheNextOpeningGoesOn) {
  base();
  ok(store_->close());
  store_.reset();
  auto db = Database::open(file_, Database::Mode::create_or_open);
  ASSERT_TRUE(db) << db.error().message;
  const int pages = (*db)->sql().execAndGet("PRAGMA page_count").getInt();
  (*db)->sql().execAndGet("PRAGMA max_page_count = " + std::to_string(pages));
  std::string random;
  for (unsigned i = 0, x = 1; i < 100'000; ++i) random += static_cast<char>((x = x * 1664525u + 1013904223u) >> 24);
  std::optional<Error> full;
  try {
    (*db)->put_text(random);
  } catch (const std::exception& error) {
    full = database_error(file_, error);
  }
  ASSERT_TRUE(full);
  EXPECT_EQ(full->kind, ErrorKind::missing);
  EXPECT_THAT(full->message, HasSubstr("the disk is full"));
  db->reset();
  open();
  EXPECT_TRUE(wait(store_->find_experiment()).value());
  ok(store_->put_event("t", "trajectory_started", "{}"));
}

TEST_F(StoreTest, HarvestReportExportAndShowAgreeOnOneTrajectory) {
  base();
  attempt("aaaa0", 0, "", false, false, {}, {});
  attempt("aaaa1", 1, "x = 1\n", true, false, {}, {"aaaa0"});
  attempt("aaaa2", 2, "x = 2\n", true, true, 1.0, {"aaaa1"});
  attempt("aaaa3", 3, "x = 3\n", true, true, 2.0, {"aaaa2", "aaaa1"});
  attempt("aaaa4", 4, "x = 4\n", false, false, {}, {"aaaa3"});
  ok(store_->close());
  store_.reset();
  std::unique_ptr<Database> db = *Database::open(file_, Database::Mode::create_or_open);
  EXPECT_EQ(harvest(*db).value(), 5);
  EXPECT_EQ(harvest(*db).value(), 5);
  std::vector<std::string> kinds;
  {
    SQLite::Statement s(db->sql(), "SELECT kind || ' ' || weight FROM transition ORDER BY iteration, parent");
    while (s.executeStep()) kinds.push_back(s.getColumn(0).getString());
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"call_fix 1.0", "exe_fix 1.0", "exe_fix 0.5", "speedup_gain 0.5",
                                             "regression 1.0"}));

  std::ostringstream lines;
  EXPECT_EQ(write_transitions_jsonl(*db, lines, {.canonical = true}).value(), 5);
  EXPECT_THAT(lines.str(), testing::Not(HasSubstr("aaaa1")));
  const std::filesystem::path out = folder_.path() / "out.jsonl";
  EXPECT_EQ(export_transitions_jsonl(*db, out).value(), 5);
  EXPECT_FALSE(std::filesystem::exists(out.string() + ".tmp"));
  EXPECT_THAT(show_text(*db, "aaaa2").value(), HasSubstr("-x = 1\n+x = 2\n"));
  EXPECT_EQ(show_text(*db, "aaaa").error().kind, ErrorKind::bad_input);
  EXPECT_THAT(status_text(*db).value(), HasSubstr("1 not started"));
  db.reset();

  const nlohmann::json r = report({file_}).value();
  const nlohmann::json& m = r["methods"][0];
  EXPECT_EQ(m["iterations"][0]["call_rate"], 0.0);
  EXPECT_EQ(m["iterations"][4]["strict_rate"], 1.0);  // handed in: the 2.0x kernel of iteration 3
  EXPECT_NEAR(m["iterations"][4]["speedup_geomean"].get<double>(), 2.0, 1e-9);
  EXPECT_EQ(m["iterations_round"][4]["strict_rate"], 0.0);
  EXPECT_EQ(m["repair_bias"]["rescued"]["n"], 1);
  EXPECT_EQ(m["failure_classes"]["exe"]["tail"], 1.0);
  EXPECT_EQ(r["time_to_rescue"]["geak@m"]["by_iteration"][1]["rescued_share"], 1.0);
  EXPECT_THAT(print_report(r), HasSubstr("exe_fix 2"));
}

TEST_F(StoreTest, NothingIsSaidOfAPolicyThatWasNotAsked) {
  base();
  attempt("aaaa0", 0, "", false, false, {}, {});
  attempt("aaaa1", 1, "x = 1\n", false, false, {}, {"aaaa0"});
  attempt("aaaa2", 2, "x = 2\n", true, false, {}, {"aaaa1"});
  attempt("aaaa3", 3, "x = 3\n", true, true, {}, {"aaaa2"});
  ok(store_->close());
  store_.reset();
  std::unique_ptr<Database> db = *Database::open(file_, Database::Mode::create_or_open);
  EXPECT_THAT(show_text(*db, "aaaa1").value(), HasSubstr("\npolicy not_run"));
  EXPECT_THAT(show_text(*db, "aaaa2").value(), HasSubstr("\npolicy not_run"));
  EXPECT_THAT(show_text(*db, "aaaa3").value(), HasSubstr("\npolicy ok"));
  std::ostringstream out;
  ASSERT_EQ(write_transitions_jsonl(*db, out).value(), 3);
  std::istringstream lines(out.str());
  std::vector<nlohmann::json> said;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json transition = nlohmann::json::parse(line);
    for (const char* side : {"before", "after"}) said.push_back(transition[side]["verdict"]["policy_ok"]);
  }
  EXPECT_EQ(said, (std::vector<nlohmann::json>{nullptr, nullptr, nullptr, nullptr, nullptr, true}));
}

// `report --json` (docs/interface.md): each key in its place, and null where nothing was computed, with a text that
// says so.
TEST_F(StoreTest, TheReportHasEveryKeyInItsPlace) {
  base();
  attempt("cccc0", 0, "x = 1\n", true, true, {}, {});
  ok(store_->close());
  store_.reset();
  const nlohmann::json r = report({file_, file_}).value();
  for (const char* key : {"experiment", "devices", "methods", "explained_deviance", "barriers", "fast_p",
                          "total_outcome", "time_to_rescue", "failure_classes", "flags", "flaky_rate",
                          "detectable_difference", "categories", "portability"}) {
    ASSERT_TRUE(r.contains(key)) << key;
    if (r[key].is_null()) {
      EXPECT_THAT(r["not_measured"].value(key, ""), HasSubstr("not measured")) << key;
    }
  }
  EXPECT_TRUE(r["flaky_rate"]["rate"].is_null());
  EXPECT_THAT(r["not_measured"].value("flaky_rate", ""), HasSubstr("not measured"));
  const nlohmann::json& m = r["methods"][0];
  for (const char* key : {"method", "model", "seeds", "tasks", "iterations", "repair_bias", "speedup_decay",
                          "transitions", "fixes", "calls", "tokens", "usd"}) {
    ASSERT_TRUE(m.contains(key)) << key;
    if (m[key].is_null()) {
      EXPECT_THAT(r["not_measured"].value(std::string("methods.") + key, ""), HasSubstr("not measured"));
    }
  }
  for (const char* key : {"barriers", "fast_p", "total_outcome", "time_to_rescue"}) {
    EXPECT_FALSE(m.contains(key)) << key;
    EXPECT_TRUE(r[key].contains("geak@m")) << key;
    EXPECT_TRUE(r[key].contains("geak@m#2")) << key;
  }
  EXPECT_EQ(m["key"], "geak@m");
  EXPECT_EQ(r["barriers"]["geak@m"]["call"]["count"], 1);
  EXPECT_THAT(print_report(r), HasSubstr("not measured: "));
}

TEST_F(StoreTest, AKernelThatTheInterpreterCannotRunIsInNoRate) {
  base();
  EvaluationRow e;
  e.id = "e";
  e.device = "d";
  e.verdict.task = "gelu";
  e.verdict.call.failure_class = "unsupported_on_cpu";
  const nlohmann::json r = report_of_one(e);
  EXPECT_EQ(r["methods"][0]["not_judged"], 1);
  EXPECT_EQ(r["barriers"]["geak@m"]["call"]["of"], 0);
}

TEST_F(StoreTest, AKernelThatAGpuFoundTooSlowToBeTimedIsNotFast) {
  base();
  ok(store_->put_device({"g", "cuda:0", "NVIDIA H200", "{}"}));
  EvaluationRow e;
  e.id = "e";
  e.device = "g";
  e.verdict.task = "gelu";
  e.verdict.call.ok = e.verdict.exe.ok = e.verdict.exe.strict_ok = e.verdict.accepted = true;
  e.verdict.perf.status = "not_measured";
  e.verdict.flags = {"too_slow"};
  const nlohmann::json r = report_of_one(e);
  EXPECT_EQ(r["fast_p"]["geak@m"]["1"]["rate"], 0.0);
  EXPECT_EQ(r["total_outcome"]["geak@m"]["geomean"], 1.0);
  EXPECT_EQ(r["total_outcome"]["geak@m"]["too_slow"], 1);
  EXPECT_THAT(print_report(r), HasSubstr("1 too slow to be timed as 1"));
}

TEST_F(StoreTest, CountsOfARoundAreItsAttemptsAndItsGeometricMeanIsOverLogs) {
  base();
  attempt("bbbb0", 0, "x = 1\n", true, true, 1.0, {});
  attempt("bbbb1", 0, "x = 2\n", true, true, 4.0, {});
  attempt("bbbb2", 0, "x = 3\n", true, false, {}, {});
  attempt("bbbb3", 0, "x = 4\n", true, false, {}, {});
  ok(store_->close());
  store_.reset();
  const nlohmann::json r = report({file_}).value();
  const nlohmann::json& round = r["methods"][0]["iterations_round"][0];
  EXPECT_EQ(round["correct"]["rate"], 0.5);
  EXPECT_EQ(round["correct"]["count"], 2);
  EXPECT_EQ(round["correct"]["of"], 4);
  EXPECT_NEAR(round["speedup_mean"].get<double>(), 2.5, 1e-9);
  EXPECT_NEAR(round["speedup_geomean"].get<double>(), 2.0, 1e-9);
  EXPECT_THAT(print_report(r), HasSubstr("50.0% 2/4"));
  // One iteration has no change, not one of 0.
  const nlohmann::json& decay = r["methods"][0]["speedup_decay"]["round"];
  EXPECT_NEAR(decay["from"].get<double>(), 2.5, 1e-9);
  EXPECT_TRUE(decay["mean_change"].is_null());
  EXPECT_THAT(print_report(r), HasSubstr("speedup decay    round     not measured"));
}

TEST_F(StoreTest, ATaskFileThatChangedIsAnError) {
  base();
  TaskRow task;
  task.id = "gelu";
  task.category = "Activation";
  ok(store_->put_task(task));
  task.file_sha256 = "other";
  const Result<void> changed = wait(store_->put_task(task));
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(changed.error().message, HasSubstr("gelu"));
}

TEST(Kind, FlakyNeedsEqualNormalisedCodeAndNeutralNoTiming) {
  AttemptRecord a, b;
  a.judged = b.judged = a.call_ok = b.call_ok = a.correct = b.correct = true;
  a.normalised_sha256 = "1", b.normalised_sha256 = "2";
  std::optional<double> ratio;
  std::string source;
  EXPECT_EQ(kind_of(a, b, &ratio, &source), "neutral");
  EXPECT_EQ(source, "not_measured");
  b.normalised_sha256 = "1";
  b.correct = false;
  EXPECT_EQ(kind_of(a, b, &ratio, &source), "flaky");
  a.call_ok = a.correct = false;
  a.normalised_sha256 = "0";
  b.correct = true;
  EXPECT_EQ(kind_of(a, b, &ratio, &source), "call_exe_fix");
}

}  // namespace
}  // namespace anneal::transitions
