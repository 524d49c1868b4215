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
    Result<std::unique_ptr<Store>> store = Store::open(io_.get_executor(), file_, Store::Mode::create_or_open);
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
               std::optional<double> speedup, std::vector<std::string> parents) {
    AttemptRow row;
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
  ok(store_->finish_call("call", reply));
  EXPECT_FALSE(wait(store_->find_reply("call", "h")).value());
  reply.ok = true;
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
  EXPECT_EQ(found->usage.prompt_tokens, 7);
  EXPECT_FALSE(found->usage.cached_tokens);
}

TEST_F(StoreTest, NamesTheCallWhosePromptChanged) {
  base();
  ok(store_->begin_call(request(), "h"));
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

TEST_F(StoreTest, RoundTripsAttemptsEvaluationsAndStates) {
  base();
  attempt("a0", 0, "x = 1\n", true, true, 1.5, {});
  attempt("a1", 1, "x = 2\n", true, true, 2.0, {"a0"});
  attempt("a1", 1, "changed\n", true, true, 2.0, {});  // ignored: rows are immutable
  const AttemptRow row = wait(store_->find_attempt("a1")).value().value();
  EXPECT_EQ(row.code, "x = 2\n");
  EXPECT_EQ(row.parents, std::vector<std::string>{"a0"});
  EXPECT_EQ(*wait(store_->find_evaluation("e-a0")).value()->verdict.perf.speedup, 1.5);
  EXPECT_EQ(wait(store_->find_evaluation_of("n", "gelu", "d", "s")).value()->id, "e-a0");
  EXPECT_FALSE(wait(store_->find_evaluation_of("n", "gelu", "d", "else")).value());
  ok(store_->put_event("t", "trajectory_started", "{}"));
  EXPECT_EQ(wait(store_->trajectory_states()).value()[0].state, "running");
  ok(store_->put_event("t", "trajectory_failed", R"({"reason":"lost"})"));
  EXPECT_EQ(wait(store_->trajectory_states()).value()[0].state, "failed: lost");
  ok(store_->put_event("t", "trajectory_done", "{}"));
  EXPECT_EQ(wait(store_->trajectory_states()).value()[0].state, "done");
}

TEST_F(StoreTest, RefusesASecondWriter) {
  open();
  const auto second = Store::open(io_.get_executor(), file_, Store::Mode::create_or_open);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("in use by another run"));
}

TEST_F(StoreTest, RefusesNewerForeignAndBrokenFiles) {
  {
    SQLite::Database db(file_.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    db.exec("CREATE TABLE t (x)");
  }
  EXPECT_THAT(Store::open(io_.get_executor(), file_, Store::Mode::create_or_open).error().message,
              HasSubstr("another application"));
  std::filesystem::remove(file_);
  open();
  store_.reset();
  {
    SQLite::Database db(file_.string(), SQLite::OPEN_READWRITE);
    db.exec("PRAGMA user_version = 99");
  }
  const Error newer = Store::open(io_.get_executor(), file_, Store::Mode::create_or_open).error();
  EXPECT_EQ(newer.kind, ErrorKind::missing);
  EXPECT_THAT(newer.message, HasSubstr("version 99"));
  EXPECT_THAT(newer.message, HasSubstr("version 1"));
  std::filesystem::remove(file_);
  std::ofstream(file_) << std::string(5000, 'x');
  EXPECT_THAT(Store::open(io_.get_executor(), file_, Store::Mode::create_or_open).error().message,
              HasSubstr("not a SQLite database"));
  EXPECT_EQ(Store::open(io_.get_executor(), "/proc/none/x.db", Store::Mode::create_or_open).error().kind,
            ErrorKind::missing);
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
  EXPECT_THAT(show_text(*db, "aaaa2").value(), HasSubstr("see [31mred"));
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
  EXPECT_EQ(m["time_to_rescue"]["by_iteration"][1]["rescued_share"], 1.0);
  EXPECT_THAT(print_report(r), HasSubstr("exe_fix 2"));
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

TEST(Printable, DropsControlCharactersAndKeepsText) {
  EXPECT_EQ(printable("a\x1b[1mb\r\n\tc\x7f\xc2\x9b"
                      "d\xe2\x80\xae"
                      "e\xc3\xa9"),
            "a[1mb\n\tcde\xc3\xa9");
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
