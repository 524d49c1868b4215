// Timing by the real judge and real candidates on a GPU that is simulated (tests/simulated): its answers and
// refusals, not its times.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/this_coro.hpp>
#include <filesystem>
#include <fstream>
#include <regex>

#include "async/nursery.h"
#include "evaluator/client.h"
#include "tests/async/run_on_loop.h"

namespace anneal::evaluator {
namespace {

namespace fs = std::filesystem;

const fs::path source = ANNEAL_SOURCE_DIR;
const fs::path evald = fs::path(ANNEAL_BIN_DIR) / "anneal-evald-simulated";

std::string read(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A kernel for the simulated suite's mul; `entry` is the body of its entry, which has `honest(input, other)` to call.
std::string kernel(const std::string& entry) {
  return R"(
import torch
import triton
import triton.language as tl


@triton.jit
def mul_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * tl.load(y_ptr + offsets, mask=mask), mask=mask)


def honest(input, other):
    out = torch.empty_like(input)
    mul_kernel[(triton.cdiv(input.numel(), 4096),)](input, other, out, input.numel(), BLOCK=4096)
    return out


calls = [0]


def mul(input, other):
    if input.numel() == 1 << 15:
        calls[0] += 1
)" + entry;
}

boost::asio::awaitable<void> judge_one(Judge* judge, EvaluationRequest request, Result<Verdict>* answer) {
  *answer = co_await judge->evaluate(std::move(request));
}

boost::asio::awaitable<std::vector<Result<Verdict>>> judge_all(std::vector<EvaluationRequest> requests) {
  DaemonOptions options;
  options.program = evald;
  options.device = "cuda:0";
  options.tasks = source / "tests/simulated/tasks";
  options.jobs = 2;
  Result<std::unique_ptr<Client>> client = co_await Client::start(options);
  if (!client) throw std::runtime_error(client.error().message);
  EXPECT_EQ((*client)->facts().device_name, "simulated");
  std::vector<Result<Verdict>> answers(requests.size());
  Nursery nursery(co_await boost::asio::this_coro::executor);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    nursery.spawn(judge_one(client->get(), std::move(requests[i]), &answers[i]));
  }
  co_await nursery.join();
  co_return answers;
}

Verdict judged(const std::string& code, bool policy_off = false) {
  EvaluationRequest request;
  request.task = "mul";
  request.code = code;
  request.policy_off = policy_off;
  const auto answers = run_on_loop(judge_all({request}));
  if (!answers.front()) throw std::runtime_error(answers.front().error().message);
  return *answers.front();
}

class SimulatedTiming : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(evald)) GTEST_SKIP() << evald << " is not built here";
  }
};

TEST_F(SimulatedTiming, AnHonestKernelIsMeasured) {
  const Verdict verdict = judged(kernel("    return honest(input, other)\n"));
  EXPECT_TRUE(verdict.accepted) << verdict.feedback;
  ASSERT_EQ(verdict.perf.status, "measured") << verdict.perf.reason;
  ASSERT_EQ(verdict.perf.cases.size(), 1u);
  const PerfCase& one = verdict.perf.cases.front();
  EXPECT_GE(one.quads, 16);
  EXPECT_DOUBLE_EQ(one.baseline_ns, 1020);  // one operator
  EXPECT_GE(one.candidate_ns, 1020);        // it allocates its output
  EXPECT_DOUBLE_EQ(one.speedup, one.baseline_ns / one.candidate_ns);
  EXPECT_NEAR(one.speedup / one.ci.lo, 1.06, 1e-9);  // as wide as a short kernel's must be
  EXPECT_NEAR(one.ci.hi / one.speedup, 1.06, 1e-9);
}

TEST_F(SimulatedTiming, TorchsOwnOperatorIsMeasuredWithThePolicyOffOnly) {
  const std::string same = "import torch\n\n\ndef mul(input, other):\n    return torch.mul(input, other)\n";
  EXPECT_EQ(judged(same).perf.status, "skipped");
  const Verdict verdict = judged(same, true);
  EXPECT_FALSE(verdict.policy.ok);
  ASSERT_EQ(verdict.perf.status, "measured") << verdict.perf.reason;
  EXPECT_DOUBLE_EQ(verdict.perf.speedup.value(), 1);
}

TEST_F(SimulatedTiming, CheatsOnTimedCallsGetTheirDeclaredClass) {
  std::vector<EvaluationRequest> requests;
  std::vector<std::string> names, declared;
  for (const auto& entry : fs::directory_iterator(source / "tests/exploits")) {
    EvaluationRequest request;
    request.task = "mul";
    request.code = read(entry.path());
    const std::string header = request.code.substr(0, request.code.find('\n'));
    std::smatch expected;
    if (header.find("simulated") == std::string::npos) continue;
    ASSERT_TRUE(std::regex_search(header, expected, std::regex("task: mul; expect: (\\w+)"))) << header;
    names.push_back(entry.path().stem());
    declared.push_back(expected[1]);
    requests.push_back(std::move(request));
  }
  ASSERT_GE(requests.size(), 6u);
  const auto answers = run_on_loop(judge_all(std::move(requests)));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    SCOPED_TRACE(names[i]);
    ASSERT_TRUE(answers[i]) << answers[i].error().message;
    EXPECT_FALSE(answers[i]->accepted);
    EXPECT_EQ(answers[i]->exe.failure_class, declared[i]) << answers[i]->exe.message;
    EXPECT_NE(answers[i]->perf.status, "measured");
  }
}

TEST_F(SimulatedTiming, AKernelThatRaisesInTimedCallsIsWrongAtScale) {
  const Verdict verdict =
      judged(kernel("        if calls[0] > 1:\n"
                    "            raise RuntimeError('no more')\n"
                    "    return honest(input, other)\n"));
  EXPECT_FALSE(verdict.accepted);
  EXPECT_EQ(verdict.exe.failure_class, "wrong_at_scale");
  EXPECT_NE(verdict.exe.message.find("no more"), std::string::npos) << verdict.exe.message;
}

TEST_F(SimulatedTiming, TorchComputingInTimedCallsOnlyIsRefused) {
  const Verdict verdict =
      judged(kernel("        if calls[0] > 1:\n"
                    "            return torch.mul(input, other)\n"
                    "    return honest(input, other)\n"));
  EXPECT_FALSE(verdict.accepted);
  EXPECT_EQ(verdict.policy.failure_class, "not_a_kernel") << verdict.policy.message;
  EXPECT_EQ(verdict.perf.status, "skipped");
}

}  // namespace
}  // namespace anneal::evaluator
