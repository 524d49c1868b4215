#include "evaluator/daemon/pairing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace anneal::evaluator {

namespace {

double log_ratio(const Quad& quad) {
  return 0.5 *
         (std::log(quad.baseline_ns[0] / quad.candidate_ns[0]) + std::log(quad.baseline_ns[1] / quad.candidate_ns[1]));
}

double median(std::vector<double> values) {
  const std::size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle), values.end());
  const double upper = values[middle];
  if (values.size() % 2 == 1) return upper;
  return 0.5 * (upper + *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle)));
}

Interval median_interval(std::vector<double> sorted) {
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  const double spread = 2.6 * std::sqrt(n) / 2;
  const auto at = [&](double rank) { return sorted[static_cast<std::size_t>(std::clamp(rank, 0.0, n - 1))]; };
  return {at(std::floor(n / 2 - spread)), at(std::ceil(n / 2 + spread))};
}

double mean_of(const std::vector<Quad>& quads, bool baseline) {
  std::vector<double> times;
  times.reserve(2 * quads.size());
  for (const Quad& quad : quads) {
    for (const double time : baseline ? quad.baseline_ns : quad.candidate_ns) times.push_back(time);
  }
  return trimmed_mean(std::move(times));
}

double spread_of(const PairedCase& one, const PairingSettings& settings) {
  const bool is_short = std::min(one.baseline_ns, one.candidate_ns) < settings.short_kernel_ns;
  return is_short ? settings.short_kernel_spread : 0;
}

std::vector<double> log_ratios(const std::vector<Quad>& quads) {
  std::vector<double> ratios;
  ratios.reserve(quads.size());
  for (const Quad& quad : quads) ratios.push_back(log_ratio(quad));
  return ratios;
}

}  // namespace

double trimmed_mean(std::vector<double> values) {
  const auto cut = static_cast<std::ptrdiff_t>(values.size() / 10);
  std::nth_element(values.begin(), values.begin() + cut, values.end());
  std::nth_element(values.begin() + cut, values.end() - 1 - cut, values.end());
  const auto kept = static_cast<double>(values.size()) - 2 * static_cast<double>(cut);
  return std::accumulate(values.begin() + cut, values.end() - cut, 0.0) / kept;
}

PairedCase measure_pairs(const std::function<Quad(int)>& draw, const std::function<double()>& seconds,
                         const PairingSettings& settings) {
  PairedCase result;
  const double start = seconds();
  for (int i = 0; i < settings.max_quads; ++i) {
    result.quads.push_back(draw(i));
    const int count = i + 1;
    const double elapsed = seconds() - start;
    if (elapsed > settings.last_seconds) break;
    constexpr double long_call_ns = 50e6;
    const Quad& last = result.quads.back();
    if (elapsed > settings.max_seconds && count >= settings.few_quads &&
        std::max(last.baseline_ns[0], last.candidate_ns[0]) >= long_call_ns) {
      break;
    }
    if (count < settings.min_quads || count % 8 != 0) continue;
    const Interval ci = median_interval(log_ratios(result.quads));
    const double half = (ci.hi - ci.lo) / 2;
    const bool clear = ci.lo - 0.02 > 0 || ci.hi + 0.02 < 0;
    if (half <= settings.half_width || (clear && half <= 0.02) || elapsed > settings.max_seconds) break;
  }
  result.baseline_ns = mean_of(result.quads, true);
  result.candidate_ns = mean_of(result.quads, false);
  const std::vector<double> ratios = log_ratios(result.quads);
  const Interval ci = median_interval(ratios);
  const double widening = std::log1p(spread_of(result, settings));
  result.speedup = std::exp(median(ratios));
  result.ci = {std::exp(ci.lo - widening), std::exp(ci.hi + widening)};
  return result;
}

void summarise(const std::vector<PairedCase>& cases, const PairingSettings& settings, PerfVerdict& perf) {
  double baseline = 0, candidate = 0, logs = 0, widened = 0;
  for (const PairedCase& one : cases) {
    baseline += one.baseline_ns;
    candidate += one.candidate_ns;
    logs += std::log(one.speedup);
    widened += one.candidate_ns * spread_of(one, settings);
  }
  perf.speedup = baseline / candidate;
  perf.speedup_geomean = std::exp(logs / static_cast<double>(cases.size()));

  std::mt19937_64 random(20260601);
  std::vector<double> draws;
  constexpr int count = 2000;
  for (int i = 0; i < count; ++i) {
    double a = 0, b = 0;
    for (const PairedCase& one : cases) {
      std::vector<Quad> drawn;
      drawn.reserve(one.quads.size());
      std::uniform_int_distribution<std::size_t> pick(0, one.quads.size() - 1);
      for (std::size_t k = 0; k < one.quads.size(); ++k) drawn.push_back(one.quads[pick(random)]);
      a += mean_of(drawn, true);
      b += mean_of(drawn, false);
    }
    draws.push_back(a / b);
  }
  std::sort(draws.begin(), draws.end());
  // The share of the total time that short cases make carries their between-process spread into the sum.
  const double widening = 1 + widened / candidate;
  perf.ci = Interval{draws[count / 200] / widening, draws[count - 1 - count / 200] * widening};
  if (perf.ci->lo > 1.01) {
    perf.verdict = "FAST";
  } else if (perf.ci->hi < 0.99) {
    perf.verdict = "SLOW";
  } else if (perf.ci->lo >= 0.98 && perf.ci->hi <= 1.02) {
    perf.verdict = "SAME";
  } else {
    perf.verdict = "AMBIGUOUS";
  }
}

}  // namespace anneal::evaluator
