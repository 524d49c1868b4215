#include "transitions/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace anneal::transitions {

std::optional<double> mean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

std::optional<double> geomean(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (double v : values) {
    if (!(v > 0)) return std::nullopt;
    sum += std::log(v);
  }
  return std::exp(sum / static_cast<double>(values.size()));
}

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  if (values.size() % 2 == 1) return values[half];
  return (values[half - 1] + values[half]) / 2;
}

std::optional<Bounds> wilson(std::int64_t successes, std::int64_t n, double z) {
  if (n <= 0) return std::nullopt;
  const double count = static_cast<double>(n), p = static_cast<double>(successes) / count, z2 = z * z;
  const double centre = (p + z2 / (2 * count)) / (1 + z2 / count);
  const double half = z / (1 + z2 / count) * std::sqrt(p * (1 - p) / count + z2 / (4 * count * count));
  return Bounds{std::max(0.0, centre - half), std::min(1.0, centre + half)};
}

std::optional<Bounds> bootstrap_tasks(
    std::size_t tasks, const std::function<std::optional<double>(const std::vector<std::size_t>&)>& statistic,
    int draws, std::uint64_t seed) {
  if (tasks < 2) return std::nullopt;
  std::mt19937_64 random(seed);
  std::vector<double> values;
  std::vector<std::size_t> sample(tasks);
  for (int i = 0; i < draws; ++i) {
    // Modulo, not uniform_int_distribution: that differs between standard libraries; the bias is below 1e-15.
    for (std::size_t& index : sample) index = static_cast<std::size_t>(random() % tasks);
    if (const std::optional<double> value = statistic(sample)) values.push_back(*value);
  }
  if (values.size() * 2 < static_cast<std::size_t>(draws) || values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const auto at = [&values](double q) {
    return values[static_cast<std::size_t>(std::lround(q * static_cast<double>(values.size() - 1)))];
  };
  return Bounds{at(0.025), at(0.975)};
}

RepairBias repair_bias(const std::vector<FirstCorrect>& kernels) {
  struct Sums {
    double rescued = 0, initial = 0;
    int rescued_n = 0, initial_n = 0;
  };
  std::map<std::string, Sums> by_task;
  for (const FirstCorrect& kernel : kernels) {
    Sums& sums = by_task[kernel.task];
    (kernel.rescued ? sums.rescued : sums.initial) += kernel.log_speedup;
    ++(kernel.rescued ? sums.rescued_n : sums.initial_n);
  }
  std::vector<Sums> tasks;
  for (const auto& [task, sums] : by_task) tasks.push_back(sums);
  const auto pooled = [&tasks](const std::vector<std::size_t>& sample) -> std::optional<double> {
    Sums all;
    for (std::size_t i : sample) {
      all.rescued += tasks[i].rescued;
      all.initial += tasks[i].initial;
      all.rescued_n += tasks[i].rescued_n;
      all.initial_n += tasks[i].initial_n;
    }
    if (all.rescued_n == 0 || all.initial_n == 0) return std::nullopt;
    return std::exp(all.rescued / all.rescued_n - all.initial / all.initial_n);
  };
  const auto within = [&tasks](const std::vector<std::size_t>& sample) -> std::optional<double> {
    double sum = 0;
    int n = 0;
    for (std::size_t i : sample) {
      const Sums& t = tasks[i];
      if (t.rescued_n == 0 || t.initial_n == 0) continue;
      sum += t.rescued / t.rescued_n - t.initial / t.initial_n;
      ++n;
    }
    if (n == 0) return std::nullopt;
    return std::exp(sum / n);
  };
  std::vector<std::size_t> everyone(tasks.size());
  for (std::size_t i = 0; i < everyone.size(); ++i) everyone[i] = i;
  RepairBias bias;
  for (const Sums& t : tasks) {
    bias.rescued += t.rescued_n;
    bias.initial += t.initial_n;
    bias.within_tasks += t.rescued_n > 0 && t.initial_n > 0;
  }
  bias.ratio = pooled(everyone);
  bias.within_ratio = within(everyone);
  if (bias.ratio) bias.ci = bootstrap_tasks(tasks.size(), pooled);
  if (bias.within_ratio) bias.within_ci = bootstrap_tasks(tasks.size(), within);
  return bias;
}

Decay speedup_decay(const std::map<std::string, double>& at_0, const std::map<std::string, double>& at_k) {
  std::vector<double> all_0, all_k, stay_0, stay_k, join, leave;
  for (const auto& [unit, value] : at_0) {
    all_0.push_back(value);
    const auto later = at_k.find(unit);
    if (later == at_k.end()) {
      leave.push_back(value);
    } else {
      stay_0.push_back(value);
      stay_k.push_back(later->second);
    }
  }
  for (const auto& [unit, value] : at_k) {
    all_k.push_back(value);
    if (!at_0.contains(unit)) join.push_back(value);
  }
  Decay decay;
  decay.stayers = static_cast<int>(stay_0.size());
  decay.joiners = static_cast<int>(join.size());
  decay.leavers = static_cast<int>(leave.size());
  decay.from = mean(all_0);
  decay.to = mean(all_k);
  if (decay.from && decay.to) decay.change = *decay.to - *decay.from;
  if (stay_0.empty()) return decay;
  const double s0 = *mean(stay_0), sk = *mean(stay_k);
  decay.drift = sk - s0;
  decay.joining =
      join.empty() ? 0.0 : static_cast<double>(join.size()) / static_cast<double>(all_k.size()) * (*mean(join) - sk);
  decay.leaving = leave.empty()
                      ? 0.0
                      : -static_cast<double>(leave.size()) / static_cast<double>(all_0.size()) * (*mean(leave) - s0);
  return decay;
}

std::optional<std::size_t> handed_in(const Records& records, const TrajectoryRecord& trajectory, int k) {
  std::optional<std::size_t> best, latest;
  for (std::size_t index : trajectory.attempts) {  // by (iteration, slot)
    const AttemptRecord& attempt = records.attempts[index];
    if (attempt.iteration > k || attempt.missing()) continue;
    latest = index;
    if (!attempt.correct) continue;
    if (!best) {
      best = index;
      continue;
    }
    const std::optional<double>& now = records.attempts[*best].speedup;
    if (attempt.speedup && (!now || *attempt.speedup > *now)) best = index;
  }
  return best ? best : latest;
}

}  // namespace anneal::transitions
