// Statistics of paired timing: quads A B B A of baseline A and candidate B (docs/metrics.md, "Timing"). Plain C++, so
// that it is tested without a GPU.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "evaluator/verdict.h"

namespace anneal::evaluator {

struct Quad {
  std::array<double, 2> baseline_ns{};
  std::array<double, 2> candidate_ns{};
};

struct PairingSettings {
  int min_quads = 16;
  int max_quads = 400;
  int few_quads = 6;          // enough for calls of 50 ms and more, whose noise is small; fewer are no measurement
  double half_width = 0.007;  // stop when half the interval of the log ratio is at most this
  double max_seconds = 1.5;   // then it stops, with at least min_quads (few_quads for long calls)
  double last_seconds = 30;   // then it stops whatever it has
  // Two processes can differ by what no repetition inside them shows, on kernels below 20 us by up to 6 %. The interval
  // of such a case is widened by it.
  double short_kernel_ns = 20'000;
  double short_kernel_spread = 0.06;
};

struct PairedCase {
  std::vector<Quad> quads;
  double baseline_ns = 0, candidate_ns = 0;  // trimmed means
  double speedup = 0;                        // exp(median of the quads' mean log ratio)
  Interval ci;                               // z = 2.6 order statistics: 99 % with sequential stopping
};

// Mean of `values` without a tenth of them (rounded down) at either end. Some calls take one of two times (argmax: 46.5
// or 49.3 us), about as often: a median of them would jump from one to the other. Throws nothing; `values` is not
// empty.
double trimmed_mean(std::vector<double> values);

// Draws quads until the interval is narrow, the winner is clear (0 outside the interval by 2 %, half width at most 2
// %), or a limit is reached. seconds(): a clock.
PairedCase measure_pairs(const std::function<Quad(int index)>& draw, const std::function<double()>& seconds,
                         const PairingSettings& settings);

// Fills speedup (sum of baselines / sum of candidates over the trimmed means of the cases), its 99 % bootstrap interval
// (quads within cases, 2,000 draws, fixed seed, widened by the share of short cases), the geometric mean and the
// verdict: FAST lo > 1.01, SLOW hi < 0.99, SAME within [0.98, 1.02], else AMBIGUOUS, in this order.
void summarise(const std::vector<PairedCase>& cases, const PairingSettings& settings, PerfVerdict& perf);

}  // namespace anneal::evaluator
