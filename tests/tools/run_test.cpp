// The real binary against a local server that speaks OpenAI's form, and a fake judge.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "process.h"
#include "tests/llm/local_server.h"
#include "transitions/database.h"

namespace anneal::tools {
namespace {

using namespace anneal::tools::testing;
using nlohmann::json;
using test::LocalServer;
using ::testing::HasSubstr;
using ::testing::Not;

// A story by place: "mul" is repaired at iteration 1, "sum" stays wrong.
std::string reply_text(const std::string& place) {
  std::vector<std::string> parts;
  std::istringstream words(place);
  for (std::string part; std::getline(words, part, '|');) parts.push_back(part);
  if (parts.size() != 6) return "bad place";
  const std::string &task = parts[0], &role = parts[2], &iteration = parts[3], &slot = parts[4];
  if (role == "reflector") return "The mask of " + task + " in " + iteration + slot + " is wrong.";
  std::string verdict = "# exe tail";
  if (task == "sum") verdict = "# call compile_error";
  if (task == "mul" && iteration != "0") verdict = "# ok";
  return "A kernel.\n```python\n" + verdict + "\ndef " + task + "(x):\n    y = " + iteration + slot + "\n```\n";
}

LocalServer::Handler answer() {
  return [](const LocalServer::Request& request) {
    const auto place = request.headers.find("x-anneal-place");
    return test::chat_response(reply_text(place == request.headers.end() ? "" : place->second));
  };
}

std::string config_for(const LocalServer& server) {
  return "experiment: e2e\ntasks: {names: [mul, sum]}\ndevice: cpu\nmodels:\n  local: {api: openai, base_url: \"" +
         server.base_url() +
         "\", model: scripted-1}\nmethods:\n  - {name: single-shot, model: local}\n"
         "  - {name: geak, model: local, iterations: 3, candidates: 2}\n";
}

std::map<std::string, int> answered_by_place(const LocalServer& server) {
  std::map<std::string, int> count;
  for (const auto& request : server.requests()) {
    const auto place = request.headers.find("x-anneal-place");
    if (place != request.headers.end()) ++count[place->second];
  }
  return count;
}

// Places whose reply is in the store.
std::set<std::string> stored_places(const fs::path& file) {
  std::set<std::string> places;
  auto database = transitions::Database::open(file, transitions::Database::Mode::read_only);
  if (!database) return places;
  SQLite::Statement statement(
      (*database)->sql(),
      "SELECT task || '|' || method || '|' || role || '|' || iteration || '|' || slot || '|' || sample FROM llm_call "
      "WHERE status = 'ok'");
  while (statement.executeStep()) places.insert(statement.getColumn(0).getString());
  return places;
}

std::string canonical(const TemporaryFolder& folder, const std::string& database) {
  const Outcome outcome = run(
      folder.path(), {"export", database, "--what", "transitions", "--format", "jsonl", "--out", "-", "--canonical"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.out;
}

TEST(Run, GetsThroughA429AndADroppedConnectionAndReports) {
  TemporaryFolder folder;
  std::atomic<int> number{0};
  LocalServer server([&number, good = answer()](const LocalServer::Request& request) {
    const int n = ++number;
    if (n == 2) return test::error_response(429, "slow down", {"Retry-After: 0"});
    if (n == 3) {
      LocalServer::Response dropped;
      dropped.fault = LocalServer::Fault::drop;
      return dropped;
    }
    return good(request);
  });
  const std::string config = folder.write("c.yaml", config_for(server));
  const Outcome outcome = run(folder.path(), {"run", config, "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("runs/e2e.db is written; next: anneal report runs/e2e.db"));
  std::istringstream lines(outcome.out);
  std::vector<std::string> events;
  for (std::string line; std::getline(lines, line);) events.push_back(json::parse(line).at("event"));
  EXPECT_EQ(events.front(), "run_started");
  EXPECT_EQ(events.back(), "run_finished");
  EXPECT_EQ(std::count(events.begin(), events.end(), "attempt"), 2 + 2 * 6);
  EXPECT_EQ(std::count(events.begin(), events.end(), "trajectory_done"), 4);

  const Outcome report = run(folder.path(), {"report", "runs/e2e.db", "--json", "-"});
  ASSERT_EQ(report.code, 0) << report.err;
  EXPECT_EQ(json::parse(report.out).at("methods").size(), 2u);
  const Outcome text = run(folder.path(), {"report", "runs/e2e.db"});
  EXPECT_THAT(text.out, HasSubstr("geak @ local"));
  EXPECT_EQ(run(folder.path(), {"status", "runs/e2e.db"}).code, 0);
  EXPECT_THAT(run(folder.path(), {"show", "runs/e2e.db", "mul"}).out, HasSubstr("mul"));

  const size_t before = server.requests().size();
  const Outcome again = run(folder.path(), {"run", config, "--display", "plain"});
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.out, "");
  EXPECT_THAT(again.err, HasSubstr("4 already done"));
  EXPECT_EQ(server.requests().size(), before);
}

TEST(Run, KilledInMidRunItGoesOnToTheSameRowsAndPaysNoReplyTwice) {
  TemporaryFolder folder;
  LocalServer whole_server(answer());
  const Outcome whole =
      run(folder.path(), {"run", folder.write("whole.yaml", config_for(whole_server)), "--db", "whole.db"});
  ASSERT_EQ(whole.code, 0) << whole.err;
  const std::string expected = canonical(folder, "whole.db");
  EXPECT_GT(expected.size(), 1000u);

  for (const size_t kill_at : {1u, 4u, 9u, 14u}) {
    LocalServer server(answer());
    const std::string config = folder.write("c.yaml", config_for(server));
    const std::string name = "killed" + std::to_string(kill_at) + ".db";
    {
      Process process(folder.path(), {"run", config, "--db", name}, {{"ANNEAL_FAKE_EVALD_DELAY", "0.03"}});
      for (int i = 0; i < 2000 && server.requests().size() < kill_at; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(15));
      process.signal(SIGKILL);
      EXPECT_EQ(process.wait().code, -SIGKILL);
    }
    const std::set<std::string> stored = stored_places(folder.path() / name);
    const auto before = answered_by_place(server);
    const Outcome resumed = run(folder.path(), {"run", config, "--db", name});
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(canonical(folder, name), expected) << kill_at;
    const auto after = answered_by_place(server);
    for (const std::string& place : stored) EXPECT_EQ(after.at(place), before.at(place)) << place;
  }
}

TEST(Run, CtrlCLeavesWith4AndTheNextRunGoesOn) {
  TemporaryFolder folder;
  LocalServer server(answer());
  const std::string config = folder.write("c.yaml", config_for(server));
  Process process(folder.path(), {"run", config}, {{"ANNEAL_FAKE_EVALD_DELAY", "0.2"}});
  for (int i = 0; i < 2000 && server.requests().size() < 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  process.signal(SIGINT);
  const Outcome stopped = process.wait();
  EXPECT_EQ(stopped.code, 4) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("run the same command again to go on"));
  const Outcome resumed = run(folder.path(), {"run", config});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
}

TEST(Run, ARefusedKeyFailsTheRunWithTheServersMessage) {
  TemporaryFolder folder;
  LocalServer server([](const LocalServer::Request&) { return test::error_response(401, "no such key"); });
  const Outcome outcome = run(folder.path(), {"run", folder.write("c.yaml", config_for(server))});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("401"));
  EXPECT_THAT(outcome.err, HasSubstr("no such key"));
}

TEST(Run, AnUnreachableServerFailsTheTrajectories) {
  TemporaryFolder folder;
  const std::string config = folder.write("c.yaml",
                                          "experiment: e\ntasks: {names: [mul]}\nmodels:\n  local: {api: openai, "
                                          "base_url: \"http://127.0.0.1:9/v1\", model: m}\n"
                                          "methods: [{name: single-shot, model: local}]\n");
  const Outcome outcome = run(folder.path(), {"run", config});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("127.0.0.1:9/v1/chat/completions"));
  EXPECT_THAT(outcome.err, HasSubstr("given up after 6 attempts"));
}

TEST(Run, ALostJudgeIsReplacedAndWhatKillsItTwiceIsAMachineFault) {
  TemporaryFolder folder;
  LocalServer server([](const LocalServer::Request& request) {
    const std::string place = request.headers.at("x-anneal-place");
    const std::string task = place.substr(0, place.find('|'));
    return test::chat_response("```python\n# " + std::string(task == "mul" ? "die" : "ok") + "\ndef " + task +
                               "(x):\n    pass\n```");
  });
  const std::string text = config_for(server);
  const std::string config = folder.write("c.yaml", text.substr(0, text.find("  - {name: geak")));
  // One at a time: all that are with a lost judge are counted as lost with it.
  const Outcome outcome = run(folder.path(), {"run", config, "--set", "jobs=1"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("mul, single-shot@local, seed 0"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("failed: sum")));
}

// ---- Bad inputs: exit codes and messages.

const char* const replay_config = R"(experiment: bad
tasks: {names: [mul]}
models:
  recorded: {api: replay, from: r.jsonl}
methods: [{name: single-shot, model: recorded}]
)";

class BadInput : public ::testing::Test {
 protected:
  void SetUp() override {
    folder.write(
        "r.jsonl",
        R"({"task":"mul","method":"single-shot","role":"generator","iteration":0,"slot":0,"sample":0,)"
        R"("must_contain":[],"reply":{"text":"```python\n# ok\ndef mul(x): pass\n```","finish_reason":"stop"}})"
        "\n");
    folder.write("c.yaml", replay_config);
  }
  void expect(std::vector<std::string> arguments, int code, const std::string& message,
              std::map<std::string, std::string> environment = {}) {
    const Outcome outcome = run(folder.path(), std::move(arguments), std::move(environment));
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_EQ(outcome.out, "");
  }
  TemporaryFolder folder;
};

TEST_F(BadInput, UsageErrorsLeaveWith2) {
  expect({}, 2, "subcommand is required");
  expect({"runn", "c.yaml"}, 2, "anneal:");
  expect({"run"}, 2, "CONFIG");
  expect({"run", "c.yaml", "--limit", "x"}, 2, "--limit");
  expect({"run", "c.yaml", "--shard", "3/2"}, 2, "--shard 3/2");
  expect({"compare", "a.db"}, 2, "not supported yet");
  expect({"tasks", "lint"}, 2, "not supported yet");
  expect({"export", "a.db", "--what", "dataset", "--out", "-"}, 2, "not supported yet");
}

TEST_F(BadInput, ConfigurationErrorsLeaveWith2AndNameThePlace) {
  expect({"run", "absent.yaml"}, 2, "absent.yaml: there is no such configuration file");
  expect({"run", "c.yaml", "--set", "tasks.names=[mull]"}, 2, "unknown task 'mull'; did you mean 'mul'?");
  expect({"run", folder.write("d.yaml", "experiment: a\nmodel: {}\n")}, 2, "d.yaml:2:1: unknown key 'model'");
  expect({"run", "c.yaml", "--set", "models.recorded.api=anthropic"}, 2, "not supported yet");
}

TEST_F(BadInput, MissingThingsLeaveWith3) {
  expect({"run", folder.write("k.yaml",
                              "experiment: a\ntasks: {names: [mul]}\nmodels:\n  m: {api: openai, base_url: "
                              "\"https://127.0.0.1:9/v1\", model: m, key_env: ANNEAL_ABSENT_KEY}\nmethods: [{name: "
                              "single-shot, model: m}]\n")},
         3, "ANNEAL_ABSENT_KEY");
  expect({"run", "c.yaml"}, 3, "tools/build", {{"ANNEAL_EVALD", "/absent/anneal-evald"}});
  expect({"run", "c.yaml"}, 3, "torch is not there", {{"ANNEAL_FAKE_EVALD_FATAL", "torch is not there"}});
  folder.write("file", "");
  expect({"run", "c.yaml", "--db", "file/x.db"}, 3, "file");
  if (fs::exists("/dev/nvidia0")) GTEST_SKIP() << "this machine has a GPU";
  expect({"run", "c.yaml", "--set", "device=cuda:0"}, 3, "no NVIDIA GPU");
}

TEST_F(BadInput, DatabasesThatAreNotOursLeaveWith3AndAreLeftAlone) {
  folder.write("text.db", "this is no database, this is no database, this is no database");
  expect({"run", "c.yaml", "--db", "text.db"}, 3, "text.db");
  EXPECT_EQ(folder.read("text.db").substr(0, 7), "this is");
  ASSERT_EQ(run(folder.path(), {"run", "c.yaml", "--db", "new.db"}).code, 0);
  {
    SQLite::Database newer((folder.path() / "new.db").string(), SQLite::OPEN_READWRITE);
    newer.exec("PRAGMA user_version = 999");
  }
  expect({"run", "c.yaml", "--db", "new.db"}, 3, "999");
  expect({"report", "absent.db"}, 2, "absent.db: there is no such file");
}

TEST_F(BadInput, AChangedSettingOfAnExistingTrajectoryNamesTheKey) {
  ASSERT_EQ(run(folder.path(), {"run", "c.yaml"}).code, 0);
  expect({"run", "c.yaml", "--set", "models.recorded.sampling={temperature: 1}"}, 2, "temperature");
}

TEST_F(BadInput, AHoleInTheRecordingFailsItsTrajectoryAlone) {
  const Outcome outcome = run(folder.path(), {"run", "c.yaml", "--set", "tasks.names=[mul, sum]"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("sum"));
  EXPECT_THAT(outcome.err, HasSubstr("1 done"));
}

// ---- The other commands.

TEST(DryRun, PrintsThePlanAndTouchesNothing) {
  TemporaryFolder folder;
  LocalServer server(answer());
  const std::string config = folder.write("c.yaml", config_for(server));
  const Outcome outcome = run(folder.path(), {"run", config, "--dry-run"}, {{"ANNEAL_EVALD", "/absent"}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 tasks, 4 trajectories"));
  EXPECT_THAT(outcome.out, HasSubstr("calls: 14 to 22"));
  EXPECT_TRUE(server.requests().empty());
  EXPECT_FALSE(fs::exists(folder.path() / "runs"));
}

TEST(Eval, JudgesFilesFoldersAndJsonl) {
  TemporaryFolder folder;
  folder.write("k/mul/good.py", "# ok\ndef mul(a, b):\n    pass\n");
  folder.write("k/sum.py", "# exe tail\ndef sum(x):\n    pass\n");
  const Outcome outcome = run(folder.path(), {"eval", "k", "--suite", "anneal", "--out", "results", "--db", "e.db"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("2 judged: call 2, exe 1, strict 1, accepted 1"));
  std::istringstream lines(folder.read("results/results.jsonl"));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const json first = json::parse(line);
  EXPECT_EQ(first.at("task"), "mul");
  EXPECT_EQ(first.at("accepted"), true);
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(json::parse(line).at("exe").at("class"), "tail");
  // Found again without the judge being asked: one that only dies would fail it.
  EXPECT_EQ(
      run(folder.path(), {"eval", "k", "--suite", "anneal", "--db", "e.db"}, {{"ANNEAL_FAKE_EVALD_DELAY", "100"}}).code,
      0);

  folder.write("s.jsonl",
               "{\"task\": \"mul\", \"code\": \"```python\\n# call syntax_error\\ndef mul(a, b): pass\\n```\"}\n"
               "{\"file\": \"sum.py\", \"predict\": \"# ok\\ndef sum(x): pass\"}\n");
  const Outcome jsonl = run(folder.path(), {"eval", "s.jsonl", "--suite", "anneal"});
  EXPECT_EQ(jsonl.code, 0) << jsonl.err;
  EXPECT_THAT(jsonl.out, HasSubstr("syntax_error"));
  EXPECT_THAT(jsonl.out, HasSubstr("2 judged: call 1"));
  folder.write("bad.jsonl", "{\"task\": \"mull\", \"code\": \"\"}\n");
  const Outcome bad = run(folder.path(), {"eval", "bad.jsonl", "--suite", "anneal"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("bad.jsonl:1: unknown task 'mull'; did you mean 'mul'?"));
}

TEST(Tasks, AreListedAndShown) {
  TemporaryFolder folder;
  const Outcome list = run(folder.path(), {"tasks", "list", "--json"});
  ASSERT_EQ(list.code, 0) << list.err;
  EXPECT_GE(json::parse(list.out).size(), 12u);
  EXPECT_THAT(run(folder.path(), {"tasks", "show", "gelu_bf16"}).out, HasSubstr("gelu_bf16(input: Tensor"));
  EXPECT_EQ(run(folder.path(), {"tasks", "show", "gelu_fb16"}).code, 2);
}

TEST(Doctor, NamesKeysButNeverTheirValues) {
  TemporaryFolder folder;
  const Outcome outcome = run(folder.path(), {"doctor"}, {{"OPENAI_API_KEY", "sk-secret-value"}});
  EXPECT_THAT(outcome.out, HasSubstr("OPENAI_API_KEY"));
  EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("secret-value")));
  EXPECT_THAT(outcome.out, HasSubstr("device cpu"));
}

}  // namespace
}  // namespace anneal::tools
