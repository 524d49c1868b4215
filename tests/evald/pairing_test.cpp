#include "evaluator/daemon/pairing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace anneal::evaluator {
namespace {

// A simulated device: noise of 0.8 %, a clock that drifts down by 8 % over the session.
class Device {
 public:
  explicit Device(double baseline, double candidate) : baseline_(baseline), candidate_(candidate) {}
  Quad quad(int index) {
    const double clock = 1 + 0.08 * index / 100.0;
    const auto draw = [&](double time) { return time * clock * std::exp(noise_(random_)); };
    return {{draw(baseline_), draw(baseline_)}, {draw(candidate_), draw(candidate_)}};
  }

 private:
  double baseline_, candidate_;
  std::mt19937_64 random_{7};
  std::normal_distribution<double> noise_{0, 0.008};
};

PairedCase measured(double baseline, double candidate) {
  Device device(baseline, candidate);
  return measure_pairs([&](int i) { return device.quad(i); }, [] { return 0.0; }, {});
}

TEST(Pairing, ADriftingClockDoesNotMoveTheRatio) {
  const PairedCase one = measured(103'000, 100'000);
  EXPECT_NEAR(one.speedup, 1.03, 0.005);
  EXPECT_LE(one.ci.lo, 1.03);
  EXPECT_GE(one.ci.hi, 1.03);
}

TEST(Pairing, StopsEarlyWhenTheWinnerIsClear) { EXPECT_EQ(measured(400'000, 100'000).quads.size(), 16u); }

TEST(Pairing, WidensTheIntervalOfShortKernels) {
  const PairedCase shorter = measured(6'000, 6'000);
  EXPECT_LT(shorter.ci.lo, 0.96);
  EXPECT_GT(shorter.ci.hi, 1.04);
}

TEST(Pairing, StopsAtTheTimeLimit) {
  double now = 0;
  std::mt19937_64 random(1);
  std::normal_distribution<double> wild(0, 0.5);
  const auto noisy = [&](int) -> Quad {
    now += 1;
    return {{1e5 * std::exp(wild(random)), 1e5}, {1e5, 1e5 * std::exp(wild(random))}};
  };
  EXPECT_EQ(measure_pairs(noisy, [&] { return now; }, {}).quads.size(), 16u);
}

PerfVerdict verdict_of(double baseline, double candidate) {
  PerfVerdict perf;
  summarise({measured(baseline, candidate)}, {}, perf);
  return perf;
}

TEST(Summary, VerdictsFollowTheInterval) {
  EXPECT_EQ(verdict_of(200'000, 100'000).verdict, "FAST");
  EXPECT_EQ(verdict_of(100'000, 200'000).verdict, "SLOW");
  EXPECT_EQ(verdict_of(100'000, 100'000).verdict, "SAME");
  EXPECT_EQ(verdict_of(6'000, 6'000).verdict, "AMBIGUOUS");
}

TEST(Summary, SpeedupIsTheRatioOfSumsAndTheGeomeanIsBesideIt) {
  PerfVerdict perf;
  // 300 us against 100 us, and 100 us against 100 us: 400 / 200, and sqrt(3).
  summarise({measured(300'000, 100'000), measured(100'000, 100'000)}, {}, perf);
  EXPECT_NEAR(*perf.speedup, 2.0, 0.02);
  EXPECT_NEAR(*perf.speedup_geomean, std::sqrt(3.0), 0.02);
  EXPECT_LT(perf.ci->lo, *perf.speedup);
  EXPECT_GT(perf.ci->hi, *perf.speedup);
}

TEST(TrimmedMean, LeavesOutATenthAtEitherEnd) {
  EXPECT_DOUBLE_EQ(trimmed_mean({3}), 3);
  EXPECT_DOUBLE_EQ(trimmed_mean({1, 2, 6}), 3);
  EXPECT_DOUBLE_EQ(trimmed_mean({1000, 2, 3, 4, 5, 6, 7, 8, 9, -1000}), 5.5);
}

TEST(Pairing, TheSameCallOfTwoTimesIsTheSameForBothSides) {
  PairingSettings settings;
  settings.min_quads = settings.max_quads = 50;
  const auto draw = [](int i) -> Quad {  // the slower one 26 times on one side and 24 on the other
    const double baseline = i < 26 ? 49.3e3 : 46.5e3, candidate = i >= 26 ? 49.3e3 : 46.5e3;
    return {{baseline, baseline}, {candidate, candidate}};
  };
  const PairedCase one = measure_pairs(draw, [] { return 0.0; }, settings);
  ASSERT_EQ(one.quads.size(), 50u);
  EXPECT_NEAR(one.baseline_ns / one.candidate_ns, 1, 0.004);
}

}  // namespace
}  // namespace anneal::evaluator
