// The real anneal-evald on the cpu device, over kernels whose first lines say what must become of them. One daemon and
// one test a group, because a daemon takes seconds to start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>

#include "async/nursery.h"
#include "evaluator/client.h"
#include "tests/async/run_on_loop.h"
#include "tests/temporary_folder.h"

namespace anneal::evaluator {
namespace {

namespace fs = std::filesystem;

struct Submission {
  fs::path file;
  std::string task, code, header;
};

struct Judged {
  Submission submission;
  Result<Verdict> verdict;
};

std::string read(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Submission> kernels_in(const fs::path& folder) {
  std::vector<Submission> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".py") continue;
    Submission one{entry.path(), folder.filename(), read(entry.path()), ""};
    one.header = one.code.substr(0, one.code.find('\n'));
    std::smatch task;
    if (std::regex_search(one.header, task, std::regex("task: (\\w+)"))) one.task = task[1];
    found.push_back(std::move(one));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.file < b.file; });
  return found;
}

const fs::path evald = fs::path(ANNEAL_BIN_DIR) / "anneal-evald";
const fs::path kernels = fs::path(ANNEAL_SOURCE_DIR) / "tests/kernels";

boost::asio::awaitable<void> judge_one(Judge* judge, Submission submission, std::vector<Judged>* judged) {
  EvaluationRequest request;
  request.task = submission.task;
  request.code = submission.code;
  Result<Verdict> verdict = co_await judge->evaluate(request);
  judged->push_back({std::move(submission), std::move(verdict)});
}

boost::asio::awaitable<std::vector<Judged>> judge_all(std::vector<Submission> submissions, fs::path program) {
  DaemonOptions options;
  options.program = std::move(program);
  options.tasks = fs::path(ANNEAL_SOURCE_DIR) / "tasks";
  options.jobs = 2;
  Result<std::unique_ptr<Client>> client = co_await Client::start(options);
  if (!client) throw std::runtime_error(client.error().message);
  std::vector<Judged> judged;
  const auto executor = co_await boost::asio::this_coro::executor;
  Nursery nursery(executor);
  for (Submission& submission : submissions) nursery.spawn(judge_one(client->get(), std::move(submission), &judged));
  co_await nursery.join();
  std::sort(judged.begin(), judged.end(),
            [](const Judged& a, const Judged& b) { return a.submission.file < b.submission.file; });
  co_return judged;
}

std::vector<Judged> judged(std::vector<Submission> submissions, const fs::path& program = evald) {
  return run_on_loop(judge_all(std::move(submissions), program));
}

// The class that decided: of the first stage that failed.
std::string decisive_class(const Verdict& verdict) {
  if (!verdict.call.ok) return verdict.call.failure_class;
  if (!verdict.exe.strict_ok) return verdict.exe.failure_class;
  return verdict.policy.failure_class;
}

class RealJudge : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(evald)) GTEST_SKIP() << evald << " is not built here";
  }
};

void expect_declared_classes(const std::vector<Judged>& results) {
  for (const Judged& one : results) {
    SCOPED_TRACE(one.submission.file.string());
    ASSERT_TRUE(one.verdict) << one.verdict.error().message;
    std::smatch declared;
    ASSERT_TRUE(std::regex_search(one.submission.header, declared, std::regex("expect: (\\w+)")))
        << one.submission.header;
    EXPECT_EQ(decisive_class(*one.verdict), declared[1]) << one.verdict->feedback;
    EXPECT_EQ(one.verdict->accepted, declared[1] == "ok");
    EXPECT_NE(one.verdict->perf.status, "measured") << "the cpu device must never report a speed";
  }
}

TEST_F(RealJudge, RunsWhatTheInterpreterLacksAndNamesWhatItCannot) {
  const auto submissions = kernels_in(kernels / "matrix");
  ASSERT_GE(submissions.size(), 6u);
  expect_declared_classes(judged(submissions));
}

TEST_F(RealJudge, ChargesEveryHostileKernelWithItsOwnClassAndGoesOn) {
  auto submissions = kernels_in(kernels / "hostile");
  ASSERT_GE(submissions.size(), 12u);
  submissions.push_back({kernels / "mul/correct.py", "mul", read(kernels / "mul/correct.py"), "# expect: ok"});
  expect_declared_classes(judged(submissions));
}

TEST_F(RealJudge, AcceptsEveryRightKernelAndRefusesEveryWrongOne) {
  std::vector<Submission> submissions;
  for (const auto& folder : fs::directory_iterator(kernels)) {
    if (!folder.is_directory() || folder.path().filename() == "matrix" || folder.path().filename() == "hostile")
      continue;
    for (Submission& one : kernels_in(folder.path())) submissions.push_back(std::move(one));
  }
  ASSERT_GE(submissions.size(), 35u);
  int right = 0;
  for (const Judged& one : judged(submissions)) {
    SCOPED_TRACE(one.submission.file.string());
    ASSERT_TRUE(one.verdict) << one.verdict.error().message;
    const bool declared_right = one.submission.header.rfind("# Right", 0) == 0;
    right += declared_right ? 1 : 0;
    EXPECT_EQ(one.verdict->accepted, declared_right) << one.verdict->feedback;
    EXPECT_EQ(one.verdict->call.ok && one.verdict->exe.ok, declared_right) << "the published rule should agree here";
    if (!declared_right) {
      EXPECT_THAT(one.verdict->feedback, testing::HasSubstr(decisive_class(*one.verdict)));
    }
  }
  EXPECT_GE(right, 15);
}

TEST_F(RealJudge, DrawsNewInputsForEveryEvaluation) {
  const std::string code = read(kernels / "mul/correct.py");
  const auto results = judged({{"a", "mul", code, ""}, {"b", "mul", code, ""}});
  ASSERT_TRUE(results[0].verdict && results[1].verdict);
  EXPECT_NE(results[0].verdict->draw, results[1].verdict->draw);
  EXPECT_EQ(results[0].verdict->code_sha256, results[1].verdict->code_sha256);
  EXPECT_EQ(results[0].verdict->settings_sha256, results[1].verdict->settings_sha256);
}

TEST_F(RealJudge, HidesTaskFilesFromTheCandidate) {
  const std::string code =
      "import glob\n"
      "found = glob.glob('" +
      (fs::path(ANNEAL_SOURCE_DIR) / "tasks").string() +
      "/*/*.py')\n"
      "if found:\n    raise ImportError('saw ' + found[0])\n"
      "def mul(input, other):\n    raise ValueError('hidden')\n";
  const auto results = judged({{"peek", "mul", code, ""}});
  ASSERT_TRUE(results[0].verdict);
  EXPECT_EQ(results[0].verdict->call.message, "ValueError: hidden");
}

TEST_F(RealJudge, ShowsTheCandidateNoFilesButTheSystemsAndItsOwn) {
  const std::string code =
      "import os, socket\n"
      "def mul(input, other):\n"
      "    found = []\n"
      "    for folder in ('" +
      std::string(ANNEAL_SOURCE_DIR) + "', '" + std::string(ANNEAL_SOURCE_DIR) +
      "/tests', '/root', '/home', '/tmp', '/var', '/run'):\n"
      "        try:\n"
      "            found += [folder] if set(os.listdir(folder)) - {os.path.basename(os.getcwd())} else []\n"
      "        except OSError:\n"
      "            pass\n"
      "    for file in ('/etc/x', '/usr/x', '/tmp/x', '/var/tmp/x'):\n"
      "        try:\n"
      "            open(file, 'w')\n"
      "            found.append(file)\n"
      "        except OSError:\n"
      "            pass\n"
      "    try:\n"
      "        socket.socket(socket.AF_INET)\n"
      "        found.append('network')\n"
      "    except OSError:\n"
      "        pass\n"
      "    open('own', 'w').write('mine')\n"
      "    raise ValueError(f'found {found}')\n";
  const auto results = judged({{"peek", "mul", code, ""}});
  ASSERT_TRUE(results[0].verdict);
  EXPECT_EQ(results[0].verdict->call.message, "ValueError: found []");
}

TEST_F(RealJudge, GivesEveryCandidateAUserOfItsOwn) {
  const std::string code = "import os\ndef mul(input, other):\n    raise ValueError(f'user {os.getuid()}')\n";
  const auto results = judged({{"a", "mul", code, ""}, {"b", "mul", code, ""}});
  ASSERT_TRUE(results[0].verdict && results[1].verdict);
  if (results[0].verdict->call.message == "ValueError: user 0") GTEST_SKIP() << "users cannot be dropped here";
  // Shared, the limit on processes would let one candidate's forks fail another's.
  EXPECT_NE(results[0].verdict->call.message, results[1].verdict->call.message);
}

bool any_process_of(const std::string& user) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string status = read(entry.path() / "status");
    if (status.find("\nUid:\t" + user + "\t") != std::string::npos) return true;
  }
  return false;
}

TEST_F(RealJudge, WithoutNamespacesNothingThatACandidateStartedOutlivesItsVerdict) {
  const test::TemporaryFolder folder;
  const fs::path wrapper =
      folder.write("evald", "#!/bin/sh\nexec setpriv --bounding-set=-sys_admin " + evald.string() + " \"$@\"\n");
  fs::permissions(wrapper, fs::perms::owner_all);
  const std::string code =
      "import os, time\n"
      "def mul(input, other):\n"
      "    if os.fork() == 0:\n"
      "        os.setsid()\n"
      "        os.fork()\n"
      "        time.sleep(600)\n"
      "    time.sleep(0.2)\n"
      "    raise ValueError(f'user {os.getuid()}')\n";
  const auto results = judged({{"forks", "mul", code, ""}}, wrapper);
  if (!results[0].verdict) GTEST_SKIP() << "no setpriv here: " << results[0].verdict.error().message;
  const std::string message = results[0].verdict->call.message;
  if (message == "ValueError: user 0" || ::geteuid() != 0) GTEST_SKIP() << "users cannot be dropped here";
  ASSERT_EQ(message.rfind("ValueError: user ", 0), 0u) << message;
  EXPECT_FALSE(any_process_of(message.substr(17)));
}

// The right kernel of `mul`, and before each call of the entry the Python lines `first`, indented by four.
std::string mul_that_first(const std::string& first) {
  return "import os\ncalls = []\n" + read(kernels / "mul/correct.py") +
         "\nright = mul\n\ndef mul(input, other):\n    calls.append(0)\n" + first + "    return right(input, other)\n";
}

TEST_F(RealJudge, NamesNoHeldOutCase) {
  const std::string held_out = "    if input.dim() == 3 and other is not None and input.shape[0] == 3:\n        ";
  const auto results = judged({{"a", "mul", mul_that_first(held_out + "os._exit(0)\n"), ""},
                               {"b", "mul", mul_that_first(held_out + "raise ValueError('seen')\n"), ""},
                               {"c", "mul", mul_that_first(held_out + "input * other\n"), ""},
                               {"d", "mul", mul_that_first(held_out + "torch.empty(1, device='cuda')\n"), ""}});
  const std::vector<std::string> classes = {"overfit", "overfit", "not_a_kernel", "unsupported_on_cpu"};
  for (std::size_t i = 0; i < results.size(); ++i) {
    SCOPED_TRACE(classes[i]);
    ASSERT_TRUE(results[i].verdict) << results[i].verdict.error().message;
    const Verdict& verdict = *results[i].verdict;
    EXPECT_EQ(decisive_class(verdict), classes[i]) << verdict.feedback;
    for (const std::string& told : {verdict.feedback, verdict.exe.message, verdict.policy.message}) {
      EXPECT_THAT(told, testing::Not(testing::AnyOf(testing::HasSubstr("cube_by_column"), testing::HasSubstr("seen"))));
    }
    const auto one = std::find_if(verdict.exe.cases.begin(), verdict.exe.cases.end(),
                                  [](const CaseVerdict& each) { return each.name == "cube_by_column"; });
    ASSERT_NE(one, verdict.exe.cases.end());
    EXPECT_TRUE(one->held_out);
  }
}

// The daemon with other options than the client gives it; a later one counts.
fs::path evald_with(const test::TemporaryFolder& folder, const std::string& options) {
  const fs::path wrapper = folder.write("evald", "#!/bin/sh\nexec " + evald.string() + " \"$@\" " + options + "\n");
  fs::permissions(wrapper, fs::perms::owner_all);
  return wrapper;
}

TEST_F(RealJudge, SaysOverfitOnlyWhereEveryShownCaseIsRight) {
  // Of the shown cases the first alone can be judged.
  const std::string unsupported =
      "    if input.dim() == 3 and other is not None and input.shape[0] == 3:\n        return right(input, other) + 1\n"
      "    if input.numel() != 1023:\n        torch.empty(1, device='cuda')\n";
  const auto results = judged({{"a", "mul", mul_that_first(unsupported), ""}});
  ASSERT_TRUE(results[0].verdict) << results[0].verdict.error().message;
  const ExeVerdict& exe = results[0].verdict->exe;
  EXPECT_THAT(exe.failure_class, testing::Not(testing::AnyOf("overfit", "outlier_only", "unsupported_on_cpu", "ok")));
  EXPECT_EQ(exe.message, "in a case that is not shown");
}

TEST_F(RealJudge, HoldsAnEndWithoutItsKernelsAgainstAKernelWhenItEndsSoAgain) {
  const test::TemporaryFolder folder;
  const auto without_kernels = [](const std::string& then) {
    return read(kernels / "mul/correct.py") +
           "\ncalls, right = [], mul\n\ndef mul(input, other):\n    calls.append(0)\n"
           "    out = right(input, other)\n    if out.numel() > 0 and out.view(-1)[0].item() != "
           "out.view(-1)[0].item():\n        " +
           then + "\n    return out\n";
  };
  // The second is as one whose machine had no time once: its fresh process answers.
  const auto results = judged({{"a", "mul", without_kernels("while True: pass"), ""},
                               {"b", "mul", without_kernels("while len(calls) > 2: pass"), ""}},
                              evald_with(folder, "--run-seconds 12"));
  const std::vector<std::string> classes = {"not_a_kernel", "ok"};
  for (std::size_t i = 0; i < results.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(results[i].verdict) << results[i].verdict.error().message;
    const Verdict& verdict = *results[i].verdict;
    EXPECT_TRUE(verdict.exe.strict_ok) << verdict.feedback;
    EXPECT_EQ(decisive_class(verdict), classes[i]) << verdict.feedback;
    EXPECT_EQ(verdict.policy.message.rfind("without its Triton kernels it ends: ", 0) == 0, classes[i] != "ok")
        << verdict.policy.message;
  }
}

TEST_F(RealJudge, ChargesNoKernelWithATaskFilesOwnFault) {
  const test::TemporaryFolder folder;
  const std::string right = read(fs::path(ANNEAL_SOURCE_DIR) / "tasks/Math/mul.py");
  const auto with = [&](const std::string& name, const std::string& behind) {
    std::string text = right;
    text.replace(text.find("def mul("), 8, "def " + name + "(");
    fs::create_directories(folder.path() / "tasks/Math");
    std::ofstream(folder.path() / "tasks/Math" / (name + ".py")) << text << behind;
  };
  with("infinite",
       "\n_cases = cases\n\ndef cases(make):\n    found = list(_cases(make))\n"
       "    found[0].inputs['other'] = float('inf')\n    return found\n");
  with("raises", "\ndef infinite_reference(*inputs):\n    return 1 // 0\n\nraises = infinite_reference\n");
  with("nonsense", "\ndef cost(case):\n    return {'reduction': 'all'}\n");
  const std::string code = mul_that_first("") + "\nkernel_function = mul\n";
  const auto results = judged({{"a", "infinite", code, ""}, {"b", "nonsense", code, ""}, {"c", "raises", code, ""}},
                              evald_with(folder, "--tasks " + (folder.path() / "tasks").string()));
  const std::vector<std::string> reasons = {"argument other is neither a tensor nor a value that JSON has: inf",
                                            "task nonsense", "ZeroDivisionError"};
  for (std::size_t i = 0; i < results.size(); ++i) {
    SCOPED_TRACE(reasons[i]);
    ASSERT_FALSE(results[i].verdict) << results[i].verdict->feedback;
    const std::string& said = results[i].verdict.error().message;
    EXPECT_THAT(said, testing::HasSubstr("task " + results[i].submission.task + " (")) << said;
    EXPECT_THAT(said, testing::HasSubstr(reasons[i]));
    if (i == 2) EXPECT_THAT(said, testing::ContainsRegex("raises.py\\([0-9]+\\)"));
  }
}

TEST_F(RealJudge, NamesTheFirstCaseWhenItsRepetitionEndsTheProcess) {
  const auto counted = judged({{"count", "mul", mul_that_first(""), ""}});
  ASSERT_TRUE(counted[0].verdict && counted[0].verdict->accepted) << counted[0].verdict->feedback;
  const CaseVerdict& first = counted[0].verdict->exe.cases.front();
  const std::string last =
      std::to_string(counted[0].verdict->exe.cases.size() + 2);  // after the call of the call stage
  const auto results =
      judged({{"a", "mul", mul_that_first("    if len(calls) == " + last + ":\n        os._exit(0)\n"), ""}});
  ASSERT_TRUE(results[0].verdict);
  const ExeVerdict& exe = results[0].verdict->exe;
  EXPECT_EQ(exe.failure_class, "crashed");
  EXPECT_EQ(exe.message,
            "case " + first.name + " (standard), run once more: the process ended by itself with exit code 0");
  EXPECT_EQ(exe.cases.size(), counted[0].verdict->exe.cases.size());
  EXPECT_EQ(exe.cases.front().name, first.name);
  EXPECT_FALSE(exe.cases.front().strict_ok);
}

TEST_F(RealJudge, ChargesNoKernelThatTheKernelMayHaveEndedForAnothersMemory) {
  const test::TemporaryFolder folder;
  const fs::path counts = folder.write("vmstat", "oom_kill 0\n");
  const fs::path wrapper =
      folder.write("evald", "#!/bin/sh\nexec unshare --mount sh -c 'mount --bind " + counts.string() +
                                " /proc/vmstat || exit 3; exec " + evald.string() + " \"$@\"' evald \"$@\"\n");
  fs::permissions(wrapper, fs::perms::owner_all);
  if (::geteuid() != 0) GTEST_SKIP() << "nothing can be mounted here";
  const Submission killed = {"killed", "mul",
                             "import os, signal, time\ndef mul(input, other):\n    time.sleep(0.5)\n    "
                             "os.kill(os.getpid(), signal.SIGKILL)\n",
                             ""};
  const auto alone = judged({killed}, wrapper);
  if (!alone[0].verdict) GTEST_SKIP() << "nothing can be mounted here: " << alone[0].verdict.error().message;
  EXPECT_EQ(alone[0].verdict->call.message, "the process was ended by SIGKILL");

  std::atomic<bool> over{false};
  std::thread oom_killer([&] {
    for (int count = 1; !over; ++count) {
      std::ofstream(counts) << "oom_kill " << count << '\n';
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  const auto beside = judged({killed}, wrapper);
  over = true;
  oom_killer.join();
  ASSERT_FALSE(beside[0].verdict);
  EXPECT_THAT(beside[0].verdict.error().message, testing::HasSubstr("ran out of memory"));
}

// The first child of a process, 0 when it has none.
pid_t child_of(pid_t parent) {
  std::error_code gone;
  pid_t child = 0;
  for (fs::directory_iterator thread("/proc/" + std::to_string(parent) + "/task", gone), end; !gone && thread != end;
       thread.increment(gone)) {
    if (std::ifstream(thread->path() / "children") >> child) return child;
  }
  return 0;
}

TEST_F(RealJudge, GoesOnWhenTheZygoteIsKilledWithAKernelInHand) {
  std::atomic<bool> killed{false}, over{false};
  std::thread killer([&] {
    while (!killed && !over) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const pid_t daemon = child_of(::getpid());
      const pid_t zygote = daemon != 0 ? child_of(daemon) : 0;
      if (zygote == 0 || child_of(zygote) == 0) continue;  // no kernel yet
      killed = ::kill(zygote, SIGKILL) == 0;
    }
  });
  const std::string right = read(kernels / "mul/correct.py");
  const auto results = judged({{"a", "mul", right, ""}, {"b", "mul", right + "# b\n", ""}});
  over = true;
  killer.join();
  EXPECT_TRUE(killed);
  for (const Judged& one : results) {
    ASSERT_TRUE(one.verdict) << one.verdict.error().message;
    EXPECT_TRUE(one.verdict->accepted) << one.verdict->feedback;
  }
}

TEST_F(RealJudge, AnUnknownTaskIsAMachineFaultNotAVerdict) {
  const auto results = judged({{"x", "no_such_task", "x = 1", ""}});
  ASSERT_FALSE(results[0].verdict);
  EXPECT_THAT(results[0].verdict.error().message, testing::HasSubstr("no_such_task"));
}

}  // namespace
}  // namespace anneal::evaluator
