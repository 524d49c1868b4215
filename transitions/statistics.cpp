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

std::vector<std::optional<Bounds>> bootstrap_tasks(
    std::size_t tasks, std::size_t figures,
    const std::function<std::vector<std::optional<double>>(const std::vector<std::size_t>&)>& statistic, int draws,
    std::uint64_t seed) {
  std::vector<std::optional<Bounds>> bounds(figures);
  if (tasks < 2) return bounds;
  std::mt19937_64 random(seed);
  std::vector<std::vector<double>> values(figures);
  std::vector<std::size_t> sample(tasks);
  for (int i = 0; i < draws; ++i) {
    // Modulo, not uniform_int_distribution: that differs between standard libraries; the bias is below 1e-15.
    for (std::size_t& index : sample) index = static_cast<std::size_t>(random() % tasks);
    const std::vector<std::optional<double>> drawn = statistic(sample);
    for (std::size_t f = 0; f < figures; ++f)
      if (drawn[f]) values[f].push_back(*drawn[f]);
  }
  for (std::size_t f = 0; f < figures; ++f) {
    std::vector<double>& of = values[f];
    if (of.size() * 2 < static_cast<std::size_t>(draws) || of.empty()) continue;
    std::sort(of.begin(), of.end());
    const auto at = [&of](double q) {
      return of[static_cast<std::size_t>(std::lround(q * static_cast<double>(of.size() - 1)))];
    };
    bounds[f] = Bounds{at(0.025), at(0.975)};
  }
  return bounds;
}

std::optional<Bounds> bootstrap_tasks(
    std::size_t tasks, const std::function<std::optional<double>(const std::vector<std::size_t>&)>& statistic,
    int draws, std::uint64_t seed) {
  const auto alone = [&statistic](const std::vector<std::size_t>& sample) {
    return std::vector<std::optional<double>>{statistic(sample)};
  };
  return bootstrap_tasks(tasks, 1, alone, draws, seed)[0];
}

std::optional<Bounds> proportion_bounds(const std::map<std::string, Counted>& by_task) {
  std::vector<Counted> tasks;
  Counted all;
  bool plain = true;
  for (const auto& [task, counted] : by_task) {
    if (counted.of == 0) continue;
    tasks.push_back(counted);
    plain = plain && counted.of == 1;
    all.passed += counted.passed;
    all.of += counted.of;
  }
  if (plain) return wilson(all.passed, all.of);
  // Every bootstrap draw would be the same.
  const auto whole = static_cast<std::int64_t>(tasks.size());
  if (all.passed == 0) return wilson(0, whole);
  if (all.passed == all.of) return wilson(whole, whole);
  return bootstrap_tasks(tasks.size(), [&tasks](const std::vector<std::size_t>& sample) -> std::optional<double> {
    Counted drawn;
    for (std::size_t i : sample) {
      drawn.passed += tasks[i].passed;
      drawn.of += tasks[i].of;
    }
    return static_cast<double>(drawn.passed) / static_cast<double>(drawn.of);
  });
}

std::optional<Bounds> pooled_bounds(const std::map<std::string, std::vector<double>>& by_task,
                                    const std::function<std::optional<double>(const std::vector<double>&)>& figure) {
  std::vector<const std::vector<double>*> tasks;
  for (const auto& [task, values] : by_task)
    if (!values.empty()) tasks.push_back(&values);
  std::vector<double> pooled;
  return bootstrap_tasks(tasks.size(), [&](const std::vector<std::size_t>& sample) {
    pooled.clear();
    for (std::size_t i : sample) pooled.insert(pooled.end(), tasks[i]->begin(), tasks[i]->end());
    return figure(pooled);
  });
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

namespace {

struct DecaySums {  // joiners are at K and no stayers, leavers are at 0 and no stayers
  double at_0 = 0, at_k = 0, stay_0 = 0, stay_k = 0;
  int n_0 = 0, n_k = 0, stayers = 0;

  void add(const DecaySums& other) {
    at_0 += other.at_0, at_k += other.at_k, stay_0 += other.stay_0, stay_k += other.stay_k;
    n_0 += other.n_0, n_k += other.n_k, stayers += other.stayers;
  }

  Decay split() const {
    Decay decay;
    decay.stayers = stayers;
    decay.joiners = n_k - stayers;
    decay.leavers = n_0 - stayers;
    if (n_0 > 0) decay.from = at_0 / n_0;
    if (n_k > 0) decay.to = at_k / n_k;
    if (decay.from && decay.to) decay.change = *decay.to - *decay.from;
    if (stayers == 0) return decay;
    const double s0 = stay_0 / stayers, sk = stay_k / stayers, joiners = decay.joiners, leavers = decay.leavers;
    decay.drift = sk - s0;
    decay.joining = decay.joiners == 0 ? 0.0 : joiners / n_k * ((at_k - stay_k) / joiners - sk);
    decay.leaving = decay.leavers == 0 ? 0.0 : -leavers / n_0 * ((at_0 - stay_0) / leavers - s0);
    return decay;
  }
};

std::map<std::string, DecaySums> decay_sums(const std::map<std::string, double>& at_0,
                                            const std::map<std::string, double>& at_k,
                                            const std::function<std::string(const std::string&)>& task_of) {
  std::map<std::string, DecaySums> by_task;
  for (const auto& [unit, value] : at_0) {
    DecaySums& sums = by_task[task_of(unit)];
    sums.at_0 += value;
    ++sums.n_0;
    if (const auto later = at_k.find(unit); later != at_k.end()) {
      sums.stay_0 += value;
      sums.stay_k += later->second;
      ++sums.stayers;
    }
  }
  for (const auto& [unit, value] : at_k) {
    DecaySums& sums = by_task[task_of(unit)];
    sums.at_k += value;
    ++sums.n_k;
  }
  return by_task;
}

}  // namespace

Decay speedup_decay(const std::map<std::string, double>& at_0, const std::map<std::string, double>& at_k) {
  return decay_sums(at_0, at_k, [](const std::string&) { return std::string(); })[""].split();
}

DecayBounds decay_bounds(const std::map<std::string, double>& at_0, const std::map<std::string, double>& at_k,
                         const std::map<std::string, std::string>& task_of) {
  std::vector<DecaySums> tasks;
  for (const auto& [task, sums] : decay_sums(at_0, at_k, [&](const std::string& unit) { return task_of.at(unit); }))
    tasks.push_back(sums);
  const std::vector<std::optional<Bounds>> bounds =
      bootstrap_tasks(tasks.size(), 6, [&tasks](const std::vector<std::size_t>& sample) {
        DecaySums all;
        for (std::size_t i : sample) all.add(tasks[i]);
        const Decay d = all.split();
        return std::vector<std::optional<double>>{d.from, d.to, d.change, d.drift, d.joining, d.leaving};
      });
  return {bounds[0], bounds[1], bounds[2], bounds[3], bounds[4], bounds[5]};
}

std::vector<double> rescued_share(const Rescues& rescues) {
  int at_risk = 0;
  for (int n : rescues.rescued) at_risk += n;
  for (int n : rescues.censored) at_risk += n;
  double survival = 1;
  std::vector<double> shares;
  for (std::size_t k = 0; k < rescues.rescued.size(); ++k) {
    if (at_risk > 0) survival *= 1 - static_cast<double>(rescues.rescued[k]) / at_risk;
    shares.push_back(1 - survival);
    at_risk -= rescues.rescued[k] + rescues.censored[k];
  }
  return shares;
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
