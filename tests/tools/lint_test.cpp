// `anneal tasks lint` with the real judge on the cpu device: the shipped tasks pass, and each planted fault is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/tools/process.h"

namespace anneal::tools::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const fs::path real_evald = fs::path(ANNEAL_BIN_DIR) / "anneal-evald";

// A task of one argument, sound but for what a test changes.
struct Planted {
  std::string stem;
  std::string reference = "return input * 2";
  std::string oracle = "def oracle(input):\n    return input + input\n";
  std::string cases =
      "    yield make.case('a', input=make.normal(200))\n    yield make.case('b', input=make.normal(3, 67))\n";
  std::string facts = "comparison: tolerance\nreduction_length: 1";
  std::string more = "";  // at the end of the file
  std::string cost = "return {'bytes': 8, 'flops': None, 'reduction': 1}";
};

std::string text_of(const Planted& task) {
  return "\"\"\"\n---\ncategory: Math\nsignature: \"" + task.stem +
         "(input: Tensor) -> Tensor\"\nprecisions: [fp32]\ndifficulty: 1\npolicy: triton\n" + task.facts +
         "\n---\nPlanted.\n\"\"\"\nimport math\n\nimport numpy as np\nimport torch\n\n\ndef " + task.stem +
         "(input):\n    " + task.reference + "\n\n\n" + task.oracle + "\n\ndef cases(make):\n" + task.cases +
         "\n\ndef perf_cases(make):\n    return []\n\n\ndef cost(case):\n    " + task.cost + "\n\n\n" + task.more;
}

class TasksLint : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(real_evald)) GTEST_SKIP() << "anneal-evald is not built here";
  }

  Outcome lint(std::vector<std::string> arguments, const fs::path& data = ANNEAL_SOURCE_DIR) {
    arguments.insert(arguments.begin(), {"tasks", "lint"});
    return run(folder.path(), std::move(arguments),
               {{"ANNEAL_EVALD", real_evald.string()}, {"ANNEAL_DATA_DIR", data.string()}});
  }

  TemporaryFolder folder;
};

TEST_F(TasksLint, FindsNothingInTheShippedTasksNorInTheirExtraForms) {
  const Outcome outcome = lint({"--extra"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  std::istringstream lines(outcome.out);
  int tasks = 0;
  for (std::string line; std::getline(lines, line); ++tasks) {
    EXPECT_THAT(line, ::testing::MatchesRegex("[a-z0-9_]+: ok \\([0-9]+ input sets, [0-9]+ null answers refused\\)"));
  }
  EXPECT_EQ(tasks, 18);
  EXPECT_THAT(outcome.err, HasSubstr("linting 18 tasks on cpu"));
}

TEST_F(TasksLint, NamesEveryPlantedFault) {
  struct Case {
    Planted task;
    std::string check, message;  // "": no finding
  };
  Planted sound{.stem = "sound"};
  Planted zeros{.stem = "always_zero"};
  zeros.reference = "return input * 0.0";
  zeros.oracle = "def oracle(input):\n    return np.zeros(input.shape)\n";
  Planted half{.stem = "hides_half"};
  half.reference = "return input.mean()";
  half.oracle = "def oracle(input):\n    return np.float64(math.fsum(input.ravel()) / input.size)\n";
  half.cases = "    yield make.case('a', input=make.uniform(20000))\n";
  half.cost = "return {'bytes': 8, 'flops': None, 'reduction': 20000}";
  Planted without{.stem = "without_oracle"};
  without.oracle.clear();
  Planted disagrees{.stem = "oracle_off"};
  disagrees.oracle = "def oracle(input):\n    return input * (2 + 1e-8)\n";
  Planted single{.stem = "oracle_in_fp32"};
  single.oracle = "def oracle(input):\n    return (2 * input).astype(np.float32)\n";
  Planted clamped{.stem = "clamped"};
  clamped.cases = "    yield make.case('a', input=make.normal(200).map(lambda t: t.clamp(-1, 1)))\n";
  Planted domain{.stem = "log_of_normal"};
  domain.reference = "return torch.log(input)";
  domain.oracle = "def oracle(input):\n    return np.log2(input) * math.log(2)\n";
  Planted constant{.stem = "constant_input"};
  constant.cases += "    yield make.case('c', input=make.uniform(9).map(torch.zeros_like))\n";
  Planted unstable{.stem = "unstable_input"};
  unstable.cases += "    yield make.case('c', input=make.normal(200).map(lambda t: t + torch.rand_like(t)))\n";
  Planted mutates{.stem = "changes_its_input"};
  mutates.reference = "return input.mul_(2)";
  Planted idle{.stem = "idle_in_place"};
  idle.facts += "\nin_place: [input]";
  idle.oracle = "def oracle(input):\n    return input + input, input\n";
  Planted coarse{.stem = "coarse_reference"};
  coarse.reference = "return (input * 2).half().to(input.dtype) if input.dtype == torch.float32 else input * 2";
  Planted raises{.stem = "raises"};
  raises.reference = "raise ValueError('no such thing')";
  Planted cost{.stem = "free_at_scale"};
  cost.cost = "return {'bytes': 0, 'flops': None, 'reduction': 1}";
  cost.more = "def perf_cases(make):\n    yield make.case('large', input=make.normal(1 << 30))\n";
  Planted scheme{.stem = "scheme_is_the_product"};
  scheme.facts =
      "comparison: quantization\nreduction_length: 1\nthresholds: {cosine: 0.95, l1_relative: 0.05, rmse: 0.1}";
  scheme.more = "def scheme_fp64(input):\n    return input.double() * 2\n\n\nscheme_oracle = oracle\n";
  Planted no_scheme{.stem = "no_scheme"};
  no_scheme.facts = scheme.facts;
  const std::vector<Case> cases = {
      {sound, "", ""},
      {zeros, "null answer", "zeros would be accepted: no case refuses it"},
      {half, "null answer", "computed on TF32 inputs passes: largest difference "},
      {without, "oracle", "no oracle in the task file"},
      {disagrees, "oracle", "elements disagree with the reference in fp64, the first of them "},
      {single, "oracle", "oracle returned float32, not float64"},
      {clamped, "inputs", "input holds no outlier: its largest magnitude is 1, that of standard inputs 1"},
      {domain, "inputs", "the inputs are outside of the operator's domain"},
      {constant, "inputs", "input is the same in 8 draws"},
      {unstable, "inputs", "input differs between two drawings of the same draw"},
      {mutates, "reference", "it changes input, which in_place does not name"},
      {idle, "null answer", "output 1: input passed through would be accepted: no case refuses it"},
      {coarse, "reference", "its own error is above what the strict rule allows"},
      {raises, "task file", "ValueError: no such thing"},
      {cost, "perf case", "cost returns 0.000000, which no call costs"},
      {scheme, "null answer", "the unquantised result passes"},
      {no_scheme, "reference", "defines no scheme_fp64"},
  };
  for (const Case& one : cases) folder.write("data/tasks/Math/" + one.task.stem + ".py", text_of(one.task));
  const Outcome outcome = lint({"--json"}, folder.path() / "data");
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("anneal: 16 of 17 tasks failed"));
  std::map<std::string, json> reports;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    const json report = json::parse(line);
    reports[report.at("task")] = report;
  }
  ASSERT_EQ(reports.size(), cases.size()) << outcome.out;
  for (const Case& one : cases) {
    SCOPED_TRACE(one.task.stem);
    const json& report = reports.at(one.task.stem);
    EXPECT_EQ(report.at("ok"), one.check.empty()) << report;
    bool named = one.check.empty();
    for (const json& finding : report.at("findings")) {
      named |= finding.at("check") == one.check &&
               finding.at("message").get<std::string>().find(one.message) != std::string::npos;
    }
    EXPECT_TRUE(named) << report.dump(2);
  }
}

TEST_F(TasksLint, TellsWhatIsWrongBelowTheTask) {
  Planted clamped{.stem = "clamped"};
  clamped.cases = "    yield make.case('a', input=make.normal(200).map(lambda t: t.clamp(-1, 1)))\n";
  folder.write("data/tasks/Math/clamped.py", text_of(clamped));
  const Outcome outcome = lint({"clamped"}, folder.path() / "data");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out,
              ::testing::StartsWith("clamped: failed\n    inputs: case a (outlier): input holds no outlier: "));
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 2) << outcome.out;
}

TEST(TasksLintErrors, LeaveWithTheCodesOfOtherCommands) {
  const TemporaryFolder folder;
  const auto expect = [&folder](std::vector<std::string> arguments, int code, const std::string& message,
                                std::map<std::string, std::string> environment = {}) {
    arguments.insert(arguments.begin(), {"tasks", "lint"});
    const Outcome outcome = run(folder.path(), std::move(arguments), std::move(environment));
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(message));
    EXPECT_EQ(outcome.out, "");
  };
  expect({"mull"}, 2, "Unknown task 'mull'; did you mean 'mul'?");
  expect({"--suite", "kernelbench"}, 2, "not supported yet");
  expect({"--device", "gpu"}, 2, "Unknown device 'gpu'");
  expect({"--device", "cpu,cuda:0"}, 2, "more than one device");
  expect({"mul"}, 3, "tools/build", {{"ANNEAL_EVALD", "/absent/anneal-evald"}});
  expect({"mul"}, 3, "torch is not there", {{"ANNEAL_EVALD_FAKE_FATAL", "torch is not there"}});
  if (!fs::exists("/dev/nvidia0")) expect({"--device", "cuda:0"}, 3, "no NVIDIA GPU");
}

TEST(TasksLintErrors, ATaskThatTheMachineCouldNotLintHasFailed) {
  const TemporaryFolder folder;
  const Outcome outcome = run(folder.path(), {"tasks", "lint", "mul", "gelu"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("gelu: not linted: The judge failed: the device is gone\nmul: not linted: "));
  EXPECT_THAT(outcome.err, HasSubstr("anneal: 2 of 2 tasks failed"));
}

}  // namespace
}  // namespace anneal::tools::testing
