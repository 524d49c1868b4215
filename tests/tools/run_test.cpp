// The real binary against a local server that speaks OpenAI's form, and a fake judge.
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
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
      Process process(folder.path(), {"run", config, "--db", name}, {{"ANNEAL_EVALD_FAKE_DELAY", "0.03"}});
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
  Process process(folder.path(), {"run", config}, {{"ANNEAL_EVALD_FAKE_DELAY", "0.2"}});
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

// One place of geak's is refused while `down`.
LocalServer::Handler answer_but(const std::string& place, const std::atomic<bool>& down) {
  return [place, &down, good = answer()](const LocalServer::Request& request) {
    const auto at = request.headers.find("x-anneal-place");
    if (down && at != request.headers.end() && at->second == place) return test::error_response(400, "too long");
    return good(request);
  };
}

TEST(Run, ARefusedRequestCostsOneCallAndTheEndNamesRetryErrors) {
  TemporaryFolder folder;
  std::atomic<bool> down{true};
  LocalServer server(answer_but("mul|geak|generator|0|1|0", down));
  const std::string config = folder.write("c.yaml", config_for(server));
  const Outcome first = run(folder.path(), {"run", config});
  EXPECT_EQ(first.code, 1) << first.err;
  EXPECT_THAT(first.err, HasSubstr("400"));
  EXPECT_THAT(first.err,
              HasSubstr("1 trajectory failed; where replies did not arrive, --retry-errors asks for them again"));
  EXPECT_THAT(first.err, HasSubstr("3 done, 0 done before, 1 failed; 14 attempts"));
  const Outcome status = run(folder.path(), {"status", "runs/e2e.db"});
  EXPECT_THAT(status.out, HasSubstr("api error (1 calls): model local: HTTP 400"));
  down = false;
  const size_t before = server.requests().size();
  const Outcome again = run(folder.path(), {"run", config, "--display", "none"});
  EXPECT_EQ(again.code, 1) << again.err;
  EXPECT_THAT(again.err,
              HasSubstr("1 trajectory failed; where replies did not arrive, --retry-errors asks for them again"));
  EXPECT_EQ(server.requests().size(), before);
  const Outcome retried = run(folder.path(), {"run", config, "--retry-errors"});
  EXPECT_EQ(retried.code, 0) << retried.err;
  EXPECT_THAT(retried.err, Not(HasSubstr("--retry-errors")));
}

TEST(Run, RetryErrorsAfterAKillAsksOnlyForWhatIsMissing) {
  for (const size_t kill_at : {5u, 8u, 11u}) {
    TemporaryFolder folder;
    std::atomic<bool> down{true};
    LocalServer server(answer_but("sum|geak|generator|2|0|0", down));
    const std::string config = folder.write("c.yaml", config_for(server));
    {
      Process process(folder.path(), {"run", config, "--db", "x.db"}, {{"ANNEAL_EVALD_FAKE_DELAY", "0.02"}});
      for (int i = 0; i < 2000 && server.requests().size() < kill_at; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      process.signal(SIGKILL);
      EXPECT_EQ(process.wait().code, -SIGKILL);
    }
    const Outcome resumed = run(folder.path(), {"run", config, "--db", "x.db"});
    EXPECT_EQ(resumed.code, 1) << resumed.err;
    const std::set<std::string> stored = stored_places(folder.path() / "x.db");
    const auto before = answered_by_place(server);
    down = false;
    const Outcome retried = run(folder.path(), {"run", config, "--db", "x.db", "--retry-errors"});
    EXPECT_EQ(retried.code, 0) << retried.err;
    const auto after = answered_by_place(server);
    for (const std::string& place : stored) EXPECT_EQ(after.at(place), before.at(place)) << place;
    EXPECT_EQ(after.count("sum|geak|generator|2|0|1"), 1u);
  }
}

TEST(Run, GetsThroughAServerThatLies) {
  TemporaryFolder folder;
  std::atomic<int> number{0};
  LocalServer server([&number, good = answer()](const LocalServer::Request& request) {
    LocalServer::Response response = good(request);
    switch (++number) {
      case 1:  // JSON that stops in the middle, with the length of what is sent
        response.body.resize(response.body.size() / 2);
        break;
      case 2:  // more than is announced
        response.claimed_length = response.body.size() / 2;
        break;
      case 3:  // less than is announced
        response.fault = LocalServer::Fault::half_body;
        break;
      default:
        break;
    }
    return response;
  });
  const Outcome outcome = run(folder.path(), {"run", folder.write("c.yaml", config_for(server))});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST(Run, APageInsteadOfAReplyIsAnApiErrorThatShowsNoControlCharacters) {
  TemporaryFolder folder;
  LocalServer server([](const LocalServer::Request&) {
    LocalServer::Response page;
    page.body = "<html>\x1b[2Jlog in</html>" + std::string(100'000, 'x');
    return page;
  });
  const std::string text = config_for(server);
  const std::string config = folder.write("c.yaml", text.substr(0, text.find("  - {name: geak")));
  const Outcome outcome = run(folder.path(), {"run", config});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.err,
              HasSubstr("2 trajectories failed; where replies did not arrive, --retry-errors asks for them again"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("\x1b")));
  EXPECT_LT(outcome.err.size(), 4000u);
}

TEST(Run, AnotherDeviceModelIsAnErrorThatNamesTheKey) {
  TemporaryFolder folder;
  LocalServer server(answer());
  const std::string config = folder.write("c.yaml", config_for(server));
  ASSERT_EQ(run(folder.path(), {"run", config}, {{"ANNEAL_EVALD_FAKE_DEVICE_NAME", "NVIDIA H200"}}).code, 0);
  const Outcome other = run(folder.path(), {"run", config}, {{"ANNEAL_EVALD_FAKE_DEVICE_NAME", "NVIDIA A100"}});
  EXPECT_EQ(other.code, 2) << other.err;
  EXPECT_THAT(other.err, HasSubstr("`device_name`"));
  EXPECT_THAT(other.err, HasSubstr("--set device="));
  EXPECT_EQ(run(folder.path(), {"run", config}, {{"ANNEAL_EVALD_FAKE_DEVICE_NAME", "NVIDIA H200"}}).code, 0);
}

TEST(Run, SaysThatTheSandboxIsNotFullOnEveryDisplay) {
  TemporaryFolder folder;
  LocalServer server(answer());
  const std::string config = folder.write("c.yaml", config_for(server));
  for (const char* display : {"plain", "none"}) {
    const Outcome outcome = run(folder.path(), {"run", config, "--display", display},
                                {{"ANNEAL_EVALD_FAKE_SANDBOX", "without namespaces"}});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("WARNING: the sandbox is not full (without namespaces)"));
  }
  EXPECT_THAT(run(folder.path(), {"run", config}).err, Not(HasSubstr("WARNING")));
}

TEST(Run, HidesTheDatabaseRecordingsAndTestKernelsFromCandidates) {
  TemporaryFolder folder;
  LocalServer server(answer());
  const std::string config = folder.write("c.yaml", config_for(server));
  fs::create_directory(folder.path() / "kept");
  const Outcome outcome = run(folder.path(), {"run", config, "--db", "kept/x.db"},
                              {{"ANNEAL_EVALD_FAKE_ARGUMENTS", (folder.path() / "arguments").string()}});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string arguments = folder.read("arguments");
  EXPECT_THAT(arguments, HasSubstr("--hide\n" + fs::canonical(folder.path() / "kept").string() + "\n"));
  for (const char* part : {"recordings", "tests/kernels"}) {
    EXPECT_THAT(arguments, HasSubstr("--hide\n" + fs::canonical(fs::path(ANNEAL_SOURCE_DIR) / part).string() + "\n"));
  }
  // The judge's own folder must not be covered; one that kernels have to see must not be used in silence.
  folder.write("judge/evald.py", "");
  fs::copy_file(fs::path(ANNEAL_SOURCE_DIR) / "tests/tools/fake_evald.py", folder.path() / "judge/evald.py",
                fs::copy_options::overwrite_existing);
  fs::permissions(folder.path() / "judge/evald.py", fs::perms::owner_all);
  const Outcome open = run(folder.path(), {"run", config, "--db", "judge/x.db"},
                           {{"ANNEAL_EVALD", (folder.path() / "judge/evald.py").string()},
                            {"ANNEAL_EVALD_FAKE_ARGUMENTS", (folder.path() / "arguments").string()}});
  EXPECT_EQ(open.code, 0) << open.err;
  EXPECT_THAT(open.err, Not(HasSubstr("WARNING")));
  EXPECT_THAT(folder.read("arguments"), Not(HasSubstr("/judge\n")));
  folder.write("python/bin/python3", "");
  folder.write("python/lib/module.py", "");
  const Outcome seen = run(folder.path(), {"run", config, "--db", "python/lib/x.db"},
                           {{"ANNEAL_PYTHON", (folder.path() / "python/bin/python3").string()},
                            {"ANNEAL_EVALD_FAKE_ARGUMENTS", (folder.path() / "arguments").string()}});
  EXPECT_EQ(seen.code, 0) << seen.err;
  EXPECT_THAT(seen.err, HasSubstr("WARNING: kernels can see"));
  EXPECT_THAT(folder.read("arguments"), Not(HasSubstr("python/lib")));
}

// ---- Databases that fail.

TEST(Run, ADamagedDatabaseLeavesWith3AndIsNotTouched) {
  TemporaryFolder folder;
  LocalServer server(answer());
  const std::string config = folder.write("c.yaml", config_for(server));
  ASSERT_EQ(run(folder.path(), {"run", config, "--db", "x.db"}).code, 0);
  const std::string whole = folder.read("x.db");
  for (const size_t kept : {whole.size() / 2, size_t{4096}, size_t{50}}) {
    folder.write("x.db", whole.substr(0, kept));
    for (const std::vector<std::string>& command : {std::vector<std::string>{"run", config, "--db", "x.db"},
                                                    {"status", "x.db"},
                                                    {"report", "x.db"},
                                                    {"show", "x.db"},
                                                    {"export", "x.db", "--what", "transitions", "--out", "-"}}) {
      const Outcome outcome = run(folder.path(), command);
      EXPECT_EQ(outcome.code, 3) << command[0] << " " << kept << ": " << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr("x.db")) << command[0];
      EXPECT_THAT(outcome.err, HasSubstr("damaged")) << command[0];
    }
    EXPECT_EQ(folder.read("x.db"), whole.substr(0, kept)) << kept;
  }
  // Pages of nonsense behind a good beginning.
  std::string nonsense = whole;
  for (size_t i = 4096; i < nonsense.size(); ++i) nonsense[i] = static_cast<char>(i * 7 + i / 251);
  folder.write("x.db", nonsense);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"run", config, "--db", "x.db"}, {"status", "x.db"}, {"report", "x.db"}}) {
    const Outcome outcome = run(folder.path(), command);
    EXPECT_EQ(outcome.code, 3) << command[0] << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("damaged")) << command[0];
  }
  folder.write("x.db", whole);
  EXPECT_EQ(run(folder.path(), {"run", config, "--db", "x.db"}).code, 0) << "the copy is good";
}

TEST(Run, AReadOnlyFolderLeavesWith3) {
  TemporaryFolder folder;
  LocalServer server(answer());
  const std::string config = folder.write("c.yaml", config_for(server));
  fs::create_directory(folder.path() / "closed");
  fs::permissions(folder.path() / "closed", fs::perms::owner_read | fs::perms::owner_exec);
  // Root may write there; nobody may write to /proc.
  const std::string database = geteuid() == 0 ? "/proc/x.db" : "closed/x.db";
  const Outcome outcome = run(folder.path(), {"run", config, "--db", database});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("Cannot write " + database));
  EXPECT_TRUE(server.requests().empty());
}

void limit_files() {
  ::signal(SIGXFSZ, SIG_IGN);  // then writing beyond the limit fails, as it does on a full disk
  const rlimit limit{400'000, 400'000};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

// Replies long enough to fill what space there is.
LocalServer::Handler long_answer() {
  return [good = answer()](const LocalServer::Request& request) {
    unsigned x = 1;
    std::string filling;
    for (int i = 0; i < 60'000; ++i) filling += static_cast<char>('a' + ((x = x * 1664525u + 1013904223u) >> 24) % 26);
    const auto place = request.headers.find("x-anneal-place");
    return test::chat_response(filling + "\n" + reply_text(place == request.headers.end() ? "" : place->second));
  };
}

TEST(Run, NoSpaceStopsTheRunWith3AndItGoesOnWhenThereIsSome) {
  TemporaryFolder folder;
  LocalServer server(long_answer());
  const std::string config = folder.write("c.yaml", config_for(server));
  const Outcome stopped = run(folder.path(), {"run", config, "--db", "x.db"}, {}, limit_files);
  EXPECT_EQ(stopped.code, 3) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("What was stored is kept"));
  const std::set<std::string> stored = stored_places(folder.path() / "x.db");
  const auto before = answered_by_place(server);
  EXPECT_LT(before.size(), 23u) << "nothing more is asked for";
  const Outcome resumed = run(folder.path(), {"run", config, "--db", "x.db"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  const auto after = answered_by_place(server);
  for (const std::string& place : stored) EXPECT_EQ(after.at(place), before.at(place)) << place;
}

void stdout_is_full() { ::dup2(::open("/dev/full", O_WRONLY | O_CLOEXEC), STDOUT_FILENO); }

TEST(Commands, LeaveWith1WhereStdoutTakesNothing) {
  TemporaryFolder folder;
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"tasks", "list"}, {"tasks", "show", "mul", "--json"}, {"--help"}, {"--version"}}) {
    const Outcome outcome = run(folder.path(), command, {}, stdout_is_full);
    EXPECT_EQ(outcome.code, 1) << command[0];
    EXPECT_EQ(outcome.err, "anneal: Writing to stdout failed.\n") << command[0];
  }
}

TEST(Run, ATokenBudgetCannotBeGotRoundByRunningAgain) {
  TemporaryFolder folder;
  LocalServer server([good = answer()](const LocalServer::Request& request) {
    LocalServer::Response response = good(request);
    json body = json::parse(response.body);
    body.erase("usage");
    response.body = body.dump();
    return response;
  });
  const std::string text = config_for(server) + "budget: {tokens: 1000}\n";
  const std::string config = folder.write("c.yaml", text);
  const Outcome first = run(folder.path(), {"run", config});
  EXPECT_EQ(first.code, 1);
  EXPECT_THAT(first.err, HasSubstr("budget.tokens was not kept: the server of model 'local' sends no token counts"));
  const size_t asked = server.requests().size();
  const Outcome again = run(folder.path(), {"run", config});
  EXPECT_EQ(again.code, 1);
  EXPECT_EQ(server.requests().size(), asked);
  EXPECT_THAT(again.err, HasSubstr("use budget.hours"));
}

TEST(Run, AFullDiskStopsTheRunWith3AndItGoesOnWhenThereIsSpace) {
  TemporaryFolder folder;
  const fs::path disk = folder.path() / "disk";
  fs::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=500k") != 0) {
    GTEST_SKIP() << "no small disk can be mounted here: " << std::strerror(errno);
  }
  LocalServer server(long_answer());
  const std::string config = folder.write("c.yaml", config_for(server));
  const Outcome stopped = run(folder.path(), {"run", config, "--db", "disk/x.db"});
  EXPECT_EQ(stopped.code, 3) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("the disk is full"));
  EXPECT_EQ(::mount(nullptr, disk.c_str(), nullptr, MS_REMOUNT, "size=50m"), 0);
  const Outcome resumed = run(folder.path(), {"run", config, "--db", "disk/x.db"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  ::umount(disk.c_str());
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
  EXPECT_THAT(outcome.err, HasSubstr("mul  single-shot@local  seed 0  failed: "));
  EXPECT_THAT(outcome.err, HasSubstr("sum  single-shot@local  seed 0  done"));
}

// What was judged is kept; trajectories that have not begun cost no call.
TEST(Run, ADeviceThatCannotBeUsedAnyMoreStopsTheRunWith1) {
  TemporaryFolder folder;
  LocalServer server([](const LocalServer::Request& request) {
    const std::string place = request.headers.at("x-anneal-place");
    const std::string task = place.substr(0, place.find('|'));
    return test::chat_response("```python\n# " + std::string(task == "mul" ? "unusable" : "ok") + "\ndef " + task +
                               "(x):\n    pass\n```");
  });
  const std::string text = config_for(server);
  const std::string config = folder.write("c.yaml", text.substr(0, text.find("  - {name: geak")));
  const Outcome outcome = run(folder.path(), {"run", config, "--set", "jobs=1"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("a kernel could not be killed"));
  EXPECT_EQ(run(folder.path(), {"status", "runs/e2e.db"}).code, 0);
}

TEST(Eval, ADeviceThatCannotBeUsedAnyMoreHandsOverWhatWasJudgedAndLeavesWith1) {
  TemporaryFolder folder;
  folder.write("k/1/mul.py", "# ok\ndef mul(a, b):\n    pass\n");
  folder.write("k/2/mul.py", "# unusable\ndef mul(a, b):\n    pass\n");
  folder.write("k/3/mul.py", "# ok\ndef mul(a, b):\n    pass\n");
  const Outcome outcome = run(folder.path(), {"eval", "k", "--suite", "anneal", "--out", "results", "--jobs", "1"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1 judged: call 1, exe 1, strict 1, accepted 1"));
  EXPECT_THAT(outcome.err, HasSubstr("a kernel could not be killed"));
  EXPECT_EQ(json::parse(folder.read("results/results.jsonl")).at("accepted"), true);
}

TEST(Run, AJudgeKilledWhileStartingIsStartedAgainTwice) {
  TemporaryFolder folder;
  LocalServer server(answer());
  const std::string config = folder.write("c.yaml", config_for(server));
  const auto starts = [&folder](const std::string& name, int killed) {
    return std::map<std::string, std::string>{
        {"ANNEAL_EVALD_FAKE_KILLED", (folder.path() / name).string() + ":" + std::to_string(killed)}};
  };
  const Outcome twice = run(folder.path(), {"run", config, "--db", "a.db"}, starts("twice", 2));
  EXPECT_EQ(twice.code, 0) << twice.err;
  EXPECT_THAT(twice.err, HasSubstr("was killed by signal 9"));
  EXPECT_THAT(twice.err, HasSubstr("Starting it again (2 of 2)"));
  const Outcome always = run(folder.path(), {"run", config, "--db", "b.db"}, starts("always", 99));
  EXPECT_EQ(always.code, 3) << always.err;
  EXPECT_THAT(always.err,
              HasSubstr("was killed by signal 9 (Killed). It was started 3 times; is there memory enough?"));
  EXPECT_EQ(folder.read("always"), "start\nstart\nstart\n");
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
  expect({"rnu", "c.yaml"}, 2, "anneal: unknown command 'rnu'; did you mean 'run'?");
  expect({"\x1b[31m"}, 2, "unknown command '[31m'; valid: run, eval");
  expect({"run", "c.yaml", "--device", "cpu"}, 2,
         "not expected: --device cpu; a key of the configuration is overridden with --set device=cpu");
  expect({"run", "c.yaml", "--jobs=3"}, 2, "--set jobs=3");
  expect({"run", "c.yaml", "--foo", "bar", "baz"}, 2, "not expected: --foo bar baz\n");
  expect({"status", "a.db", "--device", "cpu"}, 2, "not expected: --device cpu\n");
  expect({"eval", "c.yaml", "--suite", "kernelbench"}, 2, "not supported yet; use anneal");
  expect({"run"}, 2, "CONFIG");
  expect({"run", "c.yaml", "--limit", "x"}, 2, "--limit");
  expect({"run", "c.yaml", "--shard", "3/2"}, 2, "--shard 3/2");
  expect({"compare", "a.db"}, 2, "not supported yet");
  expect({"export", "a.db", "--what", "dataset", "--out", "-"}, 2, "not supported yet");
}

TEST_F(BadInput, ConfigurationErrorsLeaveWith2AndNameThePlace) {
  expect({"run", "absent.yaml"}, 2, "absent.yaml: there is no such configuration file");
  expect({"run", "c.yaml", "--set", "tasks.names=[mull]"}, 2, "unknown task 'mull'; did you mean 'mul'?");
  expect({"run", folder.write("d.yaml", "experiment: a\nmodel: {}\n")}, 2, "d.yaml:2:1: unknown key 'model'");
  expect({"run", "c.yaml", "--set", "models.recorded.api=anthropic"}, 2, "not supported yet");
}

TEST_F(BadInput, ABinaryFileAsConfigurationIsQuotedShortAndPlain) {
  const Outcome outcome = run(folder.path(), {"run", std::string(ANNEAL_BIN_DIR) + "/anneal"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_LT(outcome.err.size(), 1000u);
  for (const char c : outcome.err.substr(0, outcome.err.size() - 1)) EXPECT_GE(static_cast<unsigned char>(c), 0x20u);
}

TEST_F(BadInput, MissingThingsLeaveWith3) {
  expect({"run", folder.write("k.yaml",
                              "experiment: a\ntasks: {names: [mul]}\nmodels:\n  m: {api: openai, base_url: "
                              "\"https://127.0.0.1:9/v1\", model: m, key_env: ANNEAL_ABSENT_KEY}\nmethods: [{name: "
                              "single-shot, model: m}]\n")},
         3, "ANNEAL_ABSENT_KEY");
  expect({"run", "c.yaml"}, 3, "tools/build", {{"ANNEAL_EVALD", "/absent/anneal-evald"}});
  expect({"run", "c.yaml"}, 3, "torch is not there", {{"ANNEAL_EVALD_FAKE_FATAL", "torch is not there"}});
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
  const auto reading = [](const std::string& file) {
    return std::vector<std::vector<std::string>>{
        {"status", file}, {"show", file}, {"report", file}, {"export", file, "--what", "transitions", "--out", "-"}};
  };
  for (const auto& command : reading("absent.db")) expect(command, 3, "absent.db: there is no such file");
  fs::create_directory(folder.path() / "d.db");
  expect({"run", "c.yaml", "--db", "d.db"}, 3, "d.db is a folder");
  expect({"eval", folder.write("mul.py", "# ok\n"), "--suite", "anneal", "--db", "d.db"}, 3, "d.db is a folder");
  for (const auto& command : reading("d.db")) expect(command, 3, "d.db: is a folder");
  for (const char* file : {"text.db", "new.db"}) {
    for (const auto& command : reading(file)) expect(command, 3, file);
  }
  expect({"run", "c.yaml", "--db", "rnus/x.db"}, 3, "the folder rnus does not exist");
  expect({"eval", "mul.py", "--suite", "anneal", "--db", "rnus/x.db"}, 3, "the folder rnus does not exist");
  EXPECT_FALSE(fs::exists(folder.path() / "rnus"));
  EXPECT_EQ(run(folder.path(), {"run", "c.yaml", "--db", "./runs/x.db"}).code, 0) << "the default folder is made";
}

TEST_F(BadInput, WhatNeedsNoJudgeIsCheckedBeforeOneIsLookedFor) {
  const std::map<std::string, std::string> no_judge = {{"ANNEAL_EVALD", "/absent/anneal-evald"}};
  const auto config = [this](const std::string& name, const std::string& model) {
    return folder.write(name, "experiment: a\ntasks: {names: [mul]}\nmodels:\n  m: {api: openai, model: m, " + model +
                                  "}\nmethods: [{name: single-shot, model: m}]\n");
  };
  const std::string key = config("key.yaml", "base_url: \"https://127.0.0.1:9/v1\", key_env: ANNEAL_ABSENT_KEY");
  const std::string plain = config("plain.yaml", "base_url: \"http://model.example/v1\"");
  folder.write("text.db", "this is no database, this is no database, this is no database");
  struct Case {
    std::vector<std::string> arguments;
    int code;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{"run", key}, 3, "key.yaml:4:75: model 'm': set the environment variable ANNEAL_ABSENT_KEY to its API key."},
      {{"run", plain}, 2, "plain.yaml:4:40: model 'm': base_url http://model.example/v1 would send"},
      {{"run", "c.yaml", "--set", "models.recorded.from=absent.jsonl"}, 3, "absent.jsonl"},
      {{"run", "c.yaml", "--db", "rnus/x.db"}, 3, "rnus/x.db: the folder rnus does not exist"},
      {{"run", "c.yaml", "--db", "text.db"}, 3, "text.db is not a SQLite database"},
  };
  for (const Case& one : cases) {
    expect(one.arguments, one.code, one.message, no_judge);
    std::vector<std::string> dry = one.arguments;
    dry.push_back("--dry-run");
    const Outcome outcome = run(folder.path(), dry, no_judge);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("warning: the run would stop: "));
    EXPECT_THAT(outcome.err, HasSubstr(one.message));
    EXPECT_THAT(outcome.out, HasSubstr("1 task, 1 trajectory"));
  }
  EXPECT_EQ(run(folder.path(), {"run", "c.yaml", "--dry-run"}, no_judge).err, "");
  EXPECT_FALSE(fs::exists(folder.path() / "runs"));
  expect({"run", "c.yaml"}, 3, "/absent/anneal-evald", no_judge);
}

TEST_F(BadInput, AFolderThatIsMissingIsNamedWithTheFileAsTyped) {
  ASSERT_EQ(run(folder.path(), {"run", "c.yaml", "--db", "x.db"}).code, 0);
  const std::string message = "anneal: nodir/x.json: the folder nodir does not exist.\n";
  expect({"report", "x.db", "--json", "nodir/x.json"}, 3, message);
  expect({"export", "x.db", "--what", "transitions", "--out", "nodir/x.json"}, 3, message);
  EXPECT_FALSE(fs::exists(folder.path() / "nodir"));
}

TEST_F(BadInput, ShowSaysWhatASelectorCouldHaveBeen) {
  ASSERT_EQ(run(folder.path(), {"run", "c.yaml", "--db", "x.db"}).code, 0);
  const std::string id = run(folder.path(), {"show", "x.db"}).out.substr(0, 4);
  EXPECT_EQ(run(folder.path(), {"show", "x.db", id}).code, 0);
  expect({"show", "x.db", id.substr(0, 3)}, 2, "is the beginning of 1 id; give at least 4 characters.");
  expect({"show", "x.db", "mull"}, 2, "No task, trajectory or attempt 'mull' in x.db; did you mean 'mul'?");
  expect({"show", "x.db", "something else"}, 2, "in x.db; valid: mul");
}

TEST_F(BadInput, AnEmptyFileBecomesADatabase) {
  folder.write("empty.db", "");
  EXPECT_EQ(run(folder.path(), {"run", "c.yaml", "--dry-run", "--db", "empty.db"}).err, "");
  EXPECT_EQ(run(folder.path(), {"run", "c.yaml", "--db", "empty.db"}).code, 0);
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

TEST(Unfinished, SaysSoInsteadOfAnEmptyReport) {
  TemporaryFolder folder;
  std::atomic<bool> down{true};
  LocalServer server(answer_but("mul|geak|generator|0|1|0", down));
  const std::string config = folder.write("c.yaml", config_for(server));
  ASSERT_EQ(run(folder.path(), {"run", config}, {{"ANNEAL_EVALD_FAKE_FATAL", "no torch"}}).code, 3);
  const std::string nothing = "nothing has been started yet; run again: anneal run CONFIG.yaml --db runs/e2e.db\n";
  for (const char* command : {"status", "show", "report"}) {
    EXPECT_EQ(run(folder.path(), {command, "runs/e2e.db"}).out, nothing) << command;
  }
  ASSERT_EQ(run(folder.path(), {"run", config}).code, 1);
  // Of geak on mul, one reply of six attempts did not arrive.
  const std::string partial = run(folder.path(), {"report", "runs/e2e.db"}).out;
  EXPECT_THAT(partial,
              ::testing::StartsWith("unfinished: figures are partial (13 of 14 planned attempts judged)\nexperiment"));
  down = false;
  ASSERT_EQ(run(folder.path(), {"run", config, "--retry-errors"}).code, 0);
  EXPECT_THAT(run(folder.path(), {"report", "runs/e2e.db"}).out, ::testing::StartsWith("experiment e2e\n"));
}

TEST(Unfinished, NothingJudgedIsOneLine) {
  TemporaryFolder folder;
  LocalServer server([](const LocalServer::Request&) { return test::error_response(400, "too long"); });
  ASSERT_EQ(run(folder.path(), {"run", folder.write("c.yaml", config_for(server))}).code, 1);
  const Outcome report = run(folder.path(), {"report", "runs/e2e.db"});
  EXPECT_EQ(report.code, 0) << report.err;
  EXPECT_EQ(report.out,
            "nothing has been judged yet (0 of 14 planned attempts judged; anneal status says how far it is)\n");
}

TEST(Terminal, GetsNoControlCharactersOfAKernel) {
  TemporaryFolder folder;
  LocalServer server(answer());
  const std::string config = folder.write("c.yaml", config_for(server));
  const std::map<std::string, std::string> hostile = {{"ANNEAL_EVALD_FAKE_FEEDBACK",
                                                       "red \x1b[31m\x07\xc2\x9b"
                                                       "2Jalarm " +
                                                           std::string(300, 'x') + "\nsecond line"}};
  std::string all;
  const auto take = [&all](const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    all += outcome.out + outcome.err;
    return outcome.out;
  };
  take(run(folder.path(), {"run", config, "--display", "plain"}, hostile));
  const std::string attempts = take(run(folder.path(), {"show", "runs/e2e.db", "sum"}));
  const size_t first = attempts.find("\n  ") + 3;
  EXPECT_THAT(
      take(run(folder.path(), {"show", "runs/e2e.db", attempts.substr(first, attempts.find(' ', first) - first)})),
      HasSubstr("red [31m2Jalarm"));
  take(run(folder.path(), {"status", "runs/e2e.db"}));
  take(run(folder.path(), {"report", "runs/e2e.db"}));
  take(run(folder.path(), {"report", "runs/e2e.db", "--json", "-"}));
  folder.write("sum.py", "# exe tail\ndef sum(x):\n    pass\n");
  const std::string table = take(run(folder.path(), {"eval", "sum.py", "--suite", "anneal"}, hostile));
  EXPECT_THAT(table, HasSubstr("\n    red [31m2Jalarm xxx"));
  EXPECT_THAT(table, HasSubstr("xxx...\n1 judged"));
  EXPECT_THAT(table, Not(HasSubstr("second line")));
  EXPECT_THAT(all, HasSubstr("--out DIR"));
  for (const auto& request : server.requests()) all += json::parse(request.body).at("messages").dump();
  for (const char* control : {"\x1b", "\x07", "\xc2\x9b", "\\u001b", "\\u0007"})
    EXPECT_THAT(all, Not(HasSubstr(control)));
}

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
      run(folder.path(), {"eval", "k", "--suite", "anneal", "--db", "e.db"}, {{"ANNEAL_EVALD_FAKE_DELAY", "100"}}).code,
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

TEST(Eval, ASubmissionThatIsNoTextFailsAloneAndTheOthersAreJudged) {
  TemporaryFolder folder;
  folder.write("k/mul/good.py", "# ok\ndef mul(a, b):\n    pass\n");
  folder.write("k/mul/nul.py", std::string("# ok\ndef mul(a, b):\n\0    pass\n", 31));
  folder.write("k/mul/latin.py", "# ok \xe9\ndef mul(a, b):\n    pass\n");
  fs::create_symlink("nowhere.py", folder.path() / "k/mul/dangling.py");
  const Outcome outcome = run(folder.path(), {"eval", "k", "--suite", "anneal", "--out", "results"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1 judged: call 1, exe 1, strict 1, accepted 1"));
  EXPECT_THAT(outcome.err, HasSubstr("k/mul/nul.py: holds a NUL byte"));
  EXPECT_THAT(outcome.err, HasSubstr("k/mul/latin.py: is not UTF-8 text"));
  EXPECT_THAT(outcome.err, HasSubstr("k/mul/dangling.py: cannot be read"));
  EXPECT_THAT(outcome.err, HasSubstr("3 submissions could not be read"));
  const std::string results = folder.read("results/results.jsonl");
  EXPECT_EQ(std::count(results.begin(), results.end(), '\n'), 1);

  folder.write("s.jsonl",
               "{\"task\": \"mul\", \"code\": \"# ok\\u0000\"}\n{\"task\": \"mul\", \"code\": \"# ok \xe9\"}\n"
               "{\"task\": \"mul\", \"code\": \"# ok\\ndef mul(a, b): pass\"}\n");
  const Outcome jsonl = run(folder.path(), {"eval", "s.jsonl", "--suite", "anneal"});
  EXPECT_EQ(jsonl.code, 1) << jsonl.err;
  EXPECT_THAT(jsonl.out, HasSubstr("1 judged"));
  EXPECT_THAT(jsonl.err, HasSubstr("s.jsonl:1: holds a NUL byte"));
  EXPECT_THAT(jsonl.err, HasSubstr("s.jsonl:2: is not UTF-8 text"));
  EXPECT_EQ(run(folder.path(), {"eval", "k/mul/nul.py", "--suite", "anneal"}).code, 1);
}

TEST(Eval, CtrlCHandsOverWhatWasJudged) {
  TemporaryFolder folder;
  for (int i = 0; i < 20; ++i)
    folder.write("k/mul/" + std::to_string(i) + ".py", "# ok\ndef mul(a, b):\n    return " + std::to_string(i) + "\n");
  const fs::path started = folder.path() / "arguments";
  Process process(folder.path(), {"eval", "k", "--suite", "anneal", "--jobs", "1", "--out", "results"},
                  {{"ANNEAL_EVALD_FAKE_DELAY", "0.3"}, {"ANNEAL_EVALD_FAKE_ARGUMENTS", started.string()}});
  for (int i = 0; i < 4000 && !fs::exists(started); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  process.signal(SIGINT);
  const Outcome stopped = process.wait();
  EXPECT_EQ(stopped.code, 4) << stopped.err;
  EXPECT_THAT(stopped.out, HasSubstr("not judged: stopped"));
  EXPECT_THAT(stopped.out, Not(HasSubstr("\n0 judged")));
  EXPECT_THAT(stopped.err, HasSubstr("interrupted"));
  const std::string results = folder.read("results/results.jsonl");
  const auto lines = std::count(results.begin(), results.end(), '\n');
  EXPECT_GE(lines, 1);
  EXPECT_LT(lines, 20);
  EXPECT_THAT(stopped.out, HasSubstr(std::to_string(lines) + " judged: call " + std::to_string(lines)));
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
