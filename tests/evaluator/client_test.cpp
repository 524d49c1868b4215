#include "evaluator/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/asio/this_coro.hpp>
#include <cstdlib>

#include "async/deadline.h"
#include "async/nursery.h"
#include "evaluator/protocol.h"
#include "tests/async/run_on_loop.h"
#include "tests/temporary_folder.h"

namespace anneal::evaluator {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class EvaluatorClient : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("ANNEAL_EVALD_FAKE_LOG", (folder.path() / "log").c_str(), 1); }
  void TearDown() override { ::unsetenv("ANNEAL_EVALD_FAKE_LOG"); }

  std::string log() const { return folder.read("log"); }

  static DaemonOptions options(const std::string& device = "cpu") {
    DaemonOptions daemon;
    daemon.program = ANNEAL_SOURCE_DIR "/tests/evaluator/fake_evald.py";
    daemon.device = device;
    daemon.tasks = "/the/tasks";
    daemon.jobs = 2;
    daemon.target = "sm_90";
    return daemon;
  }

  test::TemporaryFolder folder;
};

EvaluationRequest request_of(const std::string& code) {
  EvaluationRequest request;
  request.task = "gelu_bf16";
  request.category = "Activation";
  request.code = code;
  return request;
}

struct Outcome {
  std::vector<Result<Verdict>> results;
  DeviceFacts facts;
  int restarts = 0;
  std::string start_error;
  ErrorKind start_kind = ErrorKind::io;
};

asio::awaitable<void> evaluate_into(Client* client, std::string code, Result<Verdict>* slot) {
  EvaluationRequest request = request_of(code);
  *slot = co_await client->evaluate(std::move(request));
}

// Starts a client, judges all codes at once, and ends it.
asio::awaitable<void> judge_all(DaemonOptions options, std::vector<std::string> codes, Outcome* outcome) {
  auto client = co_await Client::start(std::move(options));
  if (!client) {
    outcome->start_error = client.error().message;
    outcome->start_kind = client.error().kind;
    co_return;
  }
  outcome->facts = (*client)->facts();
  outcome->results.assign(codes.size(), fail(ErrorKind::internal, "not judged"));
  Nursery nursery(co_await asio::this_coro::executor);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    nursery.spawn(evaluate_into(client->get(), codes[i], &outcome->results[i]));
  }
  co_await nursery.join();
  outcome->restarts = (*client)->restarts();
}

Outcome judge(DaemonOptions options, std::vector<std::string> codes) {
  Outcome outcome;
  run_on_loop(judge_all(std::move(options), std::move(codes), &outcome));
  return outcome;
}

TEST_F(EvaluatorClient, ReturnsVerdictsAndFacts) {
  const Outcome outcome = judge(options(), {"good kernel", "wrong kernel"});
  ASSERT_EQ(outcome.start_error, "");
  EXPECT_EQ(outcome.facts.device_name, "fake");
  EXPECT_EQ(outcome.facts.settings_sha256, "5e77");
  EXPECT_EQ(outcome.facts.jobs, 2);
  ASSERT_TRUE(outcome.results[0]);
  EXPECT_TRUE(outcome.results[0]->accepted);
  EXPECT_EQ(outcome.results[0]->task, "gelu_bf16");
  EXPECT_EQ(outcome.results[0]->call.seconds, 0.5);
  ASSERT_TRUE(outcome.results[1]);
  EXPECT_FALSE(outcome.results[1]->accepted);
  EXPECT_EQ(outcome.results[1]->call.failure_class, "compile_error");
  EXPECT_EQ(outcome.restarts, 0);
  EXPECT_THAT(log(), HasSubstr("start --device cpu --tasks /the/tasks --suite anneal --jobs 2 --target sm_90\n"));
  EXPECT_THAT(log(), HasSubstr("shutdown"));
}

TEST_F(EvaluatorClient, CodeThatIsTooLongToSendFailsCall) {
  // Each NUL is six bytes in JSON.
  const Outcome outcome = judge(options(), {std::string(max_frame_bytes, '#'), std::string(3 << 20, '\0'), "good"});
  for (const std::size_t i : {0u, 1u}) {
    ASSERT_TRUE(outcome.results[i]) << outcome.results[i].error().message;
    const Verdict& verdict = *outcome.results[i];
    EXPECT_FALSE(verdict.call.ok || verdict.accepted);
    EXPECT_EQ(verdict.call.failure_class, "too_long");
    EXPECT_EQ(verdict.exe.failure_class, "not_run");
    EXPECT_THAT(verdict.feedback, HasSubstr("16 MiB that the judge takes"));
    EXPECT_EQ(verdict.task, "gelu_bf16");
    EXPECT_EQ(verdict.category, "Activation");
    EXPECT_EQ(verdict.device_name, "fake");
    EXPECT_EQ(verdict.settings_sha256, "5e77");
    EXPECT_EQ(verdict.code_sha256.size(), 64u);
  }
  ASSERT_TRUE(outcome.results[2]);
  EXPECT_TRUE(outcome.results[2]->accepted);
  EXPECT_EQ(outcome.restarts, 0);
}

asio::awaitable<void> lint_one(DaemonOptions options, std::string task, Result<LintReport>* report, int* restarts) {
  auto client = co_await Client::start(std::move(options));
  if (!client) throw std::runtime_error(client.error().message);
  *report = co_await (*client)->lint(task);
  *restarts = (*client)->restarts();
}

TEST_F(EvaluatorClient, ReturnsLintReports) {
  Result<LintReport> report = fail(ErrorKind::internal, "");
  int restarts = 0;
  run_on_loop(lint_one(options(), "mul", &report, &restarts));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->task, "mul");
  EXPECT_EQ(report->device, "cpu");
  ASSERT_EQ(report->findings.size(), 1u);
  EXPECT_EQ(report->findings[0].check, "oracle");
  EXPECT_EQ(report->findings[0].message, "no oracle");
  ASSERT_EQ(report->not_applicable.size(), 1u);
  EXPECT_EQ(report->not_applicable[0].answer, "zeros");
  EXPECT_EQ(report->input_sets, 3);
  EXPECT_EQ(report->refused, 7);
  EXPECT_EQ(restarts, 0);
}

TEST_F(EvaluatorClient, AMalformedLintReportIsAnErrorAndAVerdictInItsPlaceLosesTheDaemon) {
  Result<LintReport> report = fail(ErrorKind::internal, "");
  int restarts = 0;
  run_on_loop(lint_one(options(), "malformed", &report, &restarts));
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("malformed lint report"));
  EXPECT_EQ(restarts, 0);
  run_on_loop(lint_one(options(), "as_a_verdict", &report, &restarts));
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("it sent a verdict where a lint_report was asked for"));
  EXPECT_EQ(restarts, 2);
}

TEST_F(EvaluatorClient, JudgesManyWithoutLosingAny) {
  const std::vector<std::string> codes(200, "slow good kernel");
  DaemonOptions daemon = options();
  daemon.jobs = 50;
  const Outcome outcome = judge(daemon, codes);
  for (const auto& result : outcome.results) EXPECT_TRUE(result && result->accepted);
}

TEST_F(EvaluatorClient, SaysWhatTheMachineLacks) {
  const Outcome fatal = judge(options("fatal"), {});
  EXPECT_EQ(fatal.start_kind, ErrorKind::missing);
  EXPECT_EQ(fatal.start_error, "No CUDA device is visible.");
  const Outcome old = judge(options("old"), {});
  EXPECT_EQ(old.start_kind, ErrorKind::missing);
  EXPECT_THAT(old.start_error, HasSubstr("protocol 99"));
  DaemonOptions absent = options();
  absent.program = "/nonexistent/anneal-evald";
  const Outcome none = judge(absent, {});
  EXPECT_EQ(none.start_kind, ErrorKind::missing);
  EXPECT_THAT(none.start_error, HasSubstr("/nonexistent/anneal-evald"));
}

TEST_F(EvaluatorClient, SaysHowADaemonFailedToStart) {
  const Outcome dead = judge(options("dead"), {});
  EXPECT_THAT(dead.start_error, HasSubstr("exited with code 9; what it said, if anything, is above"));
  const Outcome killed = judge(options("killed"), {});
  EXPECT_THAT(killed.start_error, HasSubstr("killed by signal 9"));
  EXPECT_THAT(killed.start_error, Not(HasSubstr("above")));
  const Outcome garbage = judge(options("garbage"), {});
  EXPECT_THAT(garbage.start_error, HasSubstr("frame of"));
  DaemonOptions silent = options("silent");
  silent.hello_timeout = 100ms;
  const Outcome timed_out = judge(silent, {});
  EXPECT_EQ(timed_out.start_kind, ErrorKind::timeout);
}

TEST_F(EvaluatorClient, RestartsALostDaemonAndSendsItsRequestsOnceMore) {
  const std::string once = "die once " + (folder.path() / "died").string() + " kernel";
  const Outcome outcome = judge(options(), {once, "slow good kernel"});
  EXPECT_EQ(outcome.restarts, 1);
  for (const auto& result : outcome.results) {
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_TRUE(result->accepted);
  }
}

TEST_F(EvaluatorClient, CallsAKernelThatEndsTheDaemonTwiceAnError) {
  const Outcome outcome = judge(options(), {"die always"});
  ASSERT_FALSE(outcome.results[0]);
  EXPECT_EQ(outcome.results[0].error().kind, ErrorKind::internal);
  EXPECT_THAT(outcome.results[0].error().message, HasSubstr("exited with code 7"));
  EXPECT_EQ(outcome.restarts, 2);
}

TEST_F(EvaluatorClient, StopsRestartingAfterItsBound) {
  DaemonOptions daemon = options();
  daemon.jobs = 1;
  daemon.max_restarts = 3;
  const Outcome outcome = judge(daemon, {"die always", "die always", "die always", "good kernel"});
  for (const auto& result : outcome.results) ASSERT_FALSE(result);
  EXPECT_EQ(outcome.restarts, 3);
  EXPECT_THAT(outcome.results[3].error().message, HasSubstr("restarted 3 times"));
}

TEST_F(EvaluatorClient, CallsABrokenProtocolALoss) {
  const Outcome outcome = judge(options(), {"babble"});
  ASSERT_FALSE(outcome.results[0]);
  EXPECT_THAT(outcome.results[0].error().message, HasSubstr("frame of 4294967295 bytes"));
}

TEST_F(EvaluatorClient, KillsAHangingDaemon) {
  DaemonOptions daemon = options();
  daemon.evaluation_timeout = 2s;
  const Outcome outcome = judge(daemon, {"hang once " + (folder.path() / "hung").string() + " kernel"});
  ASSERT_TRUE(outcome.results[0]) << outcome.results[0].error().message;
  EXPECT_EQ(outcome.restarts, 1);
}

TEST_F(EvaluatorClient, PassesFaultsAndMalformedVerdictsOnAsErrors) {
  const Outcome outcome = judge(options(), {"fault", "malformed", "good kernel"});
  ASSERT_FALSE(outcome.results[0]);
  EXPECT_THAT(outcome.results[0].error().message, HasSubstr("the device is gone"));
  ASSERT_FALSE(outcome.results[1]);
  EXPECT_THAT(outcome.results[1].error().message, HasSubstr("malformed verdict"));
  EXPECT_TRUE(outcome.results[2]);
  EXPECT_EQ(outcome.restarts, 0);
}

TEST_F(EvaluatorClient, ADeviceThatItsDaemonGaveUpIsNotStartedAgain) {
  DaemonOptions daemon = options();
  daemon.jobs = 1;
  const Outcome outcome = judge(daemon, {"good kernel", "unusable", "good kernel"});
  EXPECT_TRUE(outcome.results[0]);
  for (const std::size_t later : {1u, 2u}) {
    ASSERT_FALSE(outcome.results[later]);
    EXPECT_THAT(outcome.results[later].error().message, HasSubstr("a kernel could not be killed"));
  }
  EXPECT_EQ(outcome.restarts, 0);
}

asio::awaitable<void> cancel_one(DaemonOptions options, bool* judged_after) {
  auto client = co_await Client::start(std::move(options));
  EXPECT_TRUE(client);
  EvaluationRequest never = request_of("never");
  auto cancelled = co_await with_deadline((*client)->evaluate(std::move(never)), 200ms);
  EXPECT_FALSE(cancelled);
  EvaluationRequest good = request_of("good kernel");
  auto after = co_await (*client)->evaluate(std::move(good));
  *judged_after = after.has_value();
}

TEST_F(EvaluatorClient, TellsTheDaemonOfACancelledRequestAndGoesOn) {
  bool judged_after = false;
  DaemonOptions daemon = options();
  daemon.jobs = 1;
  run_on_loop(cancel_one(daemon, &judged_after));
  EXPECT_TRUE(judged_after);
  EXPECT_THAT(log(), HasSubstr("cancel 1\n"));
}

TEST_F(EvaluatorClient, PassesTheFoldersToHide) {
  DaemonOptions daemon = options();
  daemon.hide = {"/a/runs", "/b c"};
  judge(daemon, {});
  EXPECT_THAT(log(), HasSubstr("--hide /a/runs --hide /b c"));
}

TEST_F(EvaluatorClient, GivesTheDaemonNoKeys) {
  ::setenv("DEEPSEEK_API_KEY", "sk-secret", 1);
  ::setenv("ANNEAL_API_KEY", "sk-secret", 1);
  ::setenv("TRITON_CACHE_DIR", "/cache", 1);
  judge(options(), {});
  EXPECT_THAT(log(), Not(HasSubstr("_API_KEY")));
  EXPECT_THAT(log(), HasSubstr("TRITON_CACHE_DIR"));
  ::unsetenv("DEEPSEEK_API_KEY");
  ::unsetenv("ANNEAL_API_KEY");
  ::unsetenv("TRITON_CACHE_DIR");
}

TEST(DaemonEnvironment, PassesOnlyWhatItMustKnow) {
  const auto passed =
      daemon_environment({"PATH=/bin", "HOME=/root", "LC_ALL=C", "CUDA_VISIBLE_DEVICES=0", "PATHOLOGY=1",
                          "ANNEAL_PYTHON=/p", "OPENAI_API_KEY=x", "ANNEAL_KEY=x", "ANNEAL_OPENAI=x", "NVIDIA_API_KEY=x",
                          "AWS_SECRET_ACCESS_KEY=x", "HF_TOKEN=x"});
  EXPECT_EQ(passed, (std::vector<std::string>{"PATH=/bin", "HOME=/root", "LC_ALL=C", "CUDA_VISIBLE_DEVICES=0",
                                              "ANNEAL_PYTHON=/p"}));
}

}  // namespace
}  // namespace anneal::evaluator
