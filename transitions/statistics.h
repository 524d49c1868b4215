// The statistics behind the report: pure functions of numbers. docs/metrics.md has the formulas and worked examples.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "transitions/records.h"

namespace anneal::transitions {

inline constexpr std::uint64_t kBootstrapSeed = 20250101;
inline constexpr int kBootstrapDraws = 10'000;

struct Bounds {
  double lo = 0, hi = 0;
};

// Each is nothing for no values; geomean also for a value <= 0.
std::optional<double> mean(const std::vector<double>& values);
std::optional<double> geomean(const std::vector<double>& values);
std::optional<double> median(std::vector<double> values);

// Wilson score interval of a proportion; z = 1.96 is 95 %. Nothing for n = 0.
std::optional<Bounds> wilson(std::int64_t successes, std::int64_t n, double z = 1.959963984540054);

// Percentile interval (95 %) of `statistic` over resampled task indices 0..tasks-1. Draws where it is undefined are
// left out; nothing when fewer than half are defined or tasks < 2. Same arguments, same interval.
std::optional<Bounds> bootstrap_tasks(
    std::size_t tasks, const std::function<std::optional<double>(const std::vector<std::size_t>&)>& statistic,
    int draws = kBootstrapDraws, std::uint64_t seed = kBootstrapSeed);

// The same of several figures over the same draws: `statistic` returns `figures` values, each judged by itself.
std::vector<std::optional<Bounds>> bootstrap_tasks(
    std::size_t tasks, std::size_t figures,
    const std::function<std::vector<std::optional<double>>(const std::vector<std::size_t>&)>& statistic,
    int draws = kBootstrapDraws, std::uint64_t seed = kBootstrapSeed);

// Values of several units of a task are not independent: below, what is drawn is a task with all of its units.
struct Counted {
  std::int64_t passed = 0, of = 0;
};

// Of (sum of passed) / (sum of of). Wilson when no task has more than one unit, and over the tasks when all units or
// none passed, else the bootstrap over tasks having any.
std::optional<Bounds> proportion_bounds(const std::map<std::string, Counted>& by_task);

// Of `figure` over the values of all tasks at once.
std::optional<Bounds> pooled_bounds(const std::map<std::string, std::vector<double>>& by_task,
                                    const std::function<std::optional<double>(const std::vector<double>&)>& figure);

// One trajectory's correct, measured attempts of its first correct round: mean of log speedup.
struct FirstCorrect {
  std::string task;
  bool rescued = false;  // first correct at iteration > 0
  double log_speedup = 0;
};

struct RepairBias {
  int rescued = 0, initial = 0;
  std::optional<double> ratio;  // pooled: exp(mean log R - mean log I)
  std::optional<Bounds> ci;
  int within_tasks = 0;  // tasks having both
  std::optional<double> within_ratio;
  std::optional<Bounds> within_ci;
};

RepairBias repair_bias(const std::vector<FirstCorrect>& kernels);

// Exact split of M_K - M_0 (docs/metrics.md). Without stayers only the change is defined.
struct Decay {
  int stayers = 0, joiners = 0, leavers = 0;
  std::optional<double> from, to, change, drift, joining, leaving;
};

// Unit (trajectory) -> value; units absent are not correct-and-measured then.
Decay speedup_decay(const std::map<std::string, double>& at_0, const std::map<std::string, double>& at_k);

// Of each figure of `speedup_decay`. `task_of` names each unit's task.
struct DecayBounds {
  std::optional<Bounds> from, to, change, drift, joining, leaving;
};

DecayBounds decay_bounds(const std::map<std::string, double>& at_0, const std::map<std::string, double>& at_k,
                         const std::map<std::string, std::string>& task_of);

// How trajectories that failed at iteration 0 went on: at index k, how many were first correct at k, and how many ended
// with k without ever being so.
struct Rescues {
  std::vector<int> rescued, censored;
};

// Kaplan-Meier: at index k, the share rescued by iteration k (0 at index 0).
std::vector<double> rescued_share(const Rescues& rescues);

// Index into records.attempts of what the trajectory would submit after iteration k: best correct so far by measured
// speedup (ties and unmeasured: earliest (iteration, slot)), else the latest. Nothing when it has no judged attempt.
std::optional<std::size_t> handed_in(const Records& records, const TrajectoryRecord& trajectory, int k);

}  // namespace anneal::transitions
