#include "transitions/figures.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace anneal::transitions {

using nlohmann::json;

namespace {

// Null where there is no value.
json number(std::optional<double> value) { return value ? json(*value) : json(nullptr); }
json bounds(std::optional<Bounds> value) { return value ? json::array({value->lo, value->hi}) : json(nullptr); }

using ByTask = std::map<std::string, std::vector<double>>;

std::vector<double> pooled(const ByTask& by_task) {
  std::vector<double> all;
  for (const auto& [task, values] : by_task) all.insert(all.end(), values.begin(), values.end());
  return all;
}

// A rate averaged over attempts within a trajectory, seeds within a task, then tasks; Wilson on tasks when every task
// has one 0-or-1 value. `count` and `of` count attempts.
struct Rate {
  std::map<std::string, std::vector<double>> by_task;
  std::int64_t passed = 0, attempts = 0;

  void add(const std::string& task, bool value) { add(task, std::vector<double>{value ? 1.0 : 0.0}); }

  // The 0-or-1 values of one trajectory's attempts, of which there is at least one.
  void add(const std::string& task, const std::vector<double>& values) {
    by_task[task].push_back(*mean(values));
    for (double v : values) passed += v == 1.0;
    attempts += static_cast<std::int64_t>(values.size());
  }

  json to_json() const {
    std::vector<double> tasks;
    std::int64_t whole = 0;  // tasks at 1
    bool plain = true;
    for (const auto& [task, values] : by_task) {
      tasks.push_back(*mean(values));
      whole += tasks.back() == 1.0;
      plain = plain && values.size() == 1 && (values[0] == 0.0 || values[0] == 1.0);
    }
    const std::optional<double> rate = mean(tasks);
    std::optional<Bounds> ci;
    // Where all tasks are at 0, or all at 1, every bootstrap draw is the same.
    if (plain || rate == 0.0 || rate == 1.0)
      ci = wilson(whole, static_cast<std::int64_t>(tasks.size()));
    else
      ci = bootstrap_tasks(tasks.size(), [&tasks](const std::vector<std::size_t>& sample) -> std::optional<double> {
        double sum = 0;
        for (std::size_t i : sample) sum += tasks[i];
        return sum / static_cast<double>(sample.size());
      });
    return {{"rate", number(rate)}, {"count", passed}, {"of", attempts}, {"ci", bounds(ci)}};
  }
};

struct Measured {  // a trajectory's correct, measured attempts
  std::string task;
  double speedup = 0, log = 0;  // means of the speedups and of their logs
};

struct Series {  // of one iteration
  Rate call, exe, strict, correct;
  std::map<std::string, Measured> measured;  // by trajectory

  json to_json(int iteration) const {
    ByTask speedups;
    std::map<std::string, Counted> slower;
    for (const auto& [trajectory, m] : measured) {
      speedups[m.task].push_back(m.speedup);
      slower[m.task].passed += m.speedup < 1;
      ++slower[m.task].of;
    }
    ByTask logs;
    for (const auto& [trajectory, m] : measured) logs[m.task].push_back(m.log);
    const std::optional<double> mean_log = mean(pooled(logs));
    std::optional<Bounds> geomean_bounds = pooled_bounds(logs, mean);
    if (geomean_bounds) geomean_bounds = Bounds{std::exp(geomean_bounds->lo), std::exp(geomean_bounds->hi)};
    const json c = call.to_json(), e = exe.to_json(), s = strict.to_json(), a = correct.to_json();
    const json slow = proportion_json(slower);
    return {{"iteration", iteration},
            {"call_rate", c["rate"]},
            {"call", c},
            {"exe_rate", e["rate"]},
            {"exe", e},
            {"strict_rate", s["rate"]},
            {"strict", s},
            {"correct_rate", a["rate"]},
            {"correct", a},
            {"speedup_mean", number(mean(pooled(speedups)))},
            {"speedup_mean_ci", bounds(pooled_bounds(speedups, mean))},
            {"speedup_geomean", mean_log ? json(std::exp(*mean_log)) : json(nullptr)},
            {"speedup_geomean_ci", bounds(geomean_bounds)},
            {"slower_than_baseline_share", slow["rate"]},
            {"slower_than_baseline", {{"count", slow["count"]}, {"of", slow["of"]}, {"ci", slow["ci"]}}},
            {"n", call.by_task.size()},
            {"n_measured", measured.size()}};
  }
};

Series round_series(const Arm& arm, int k) {
  Series series;
  for (const TrajectoryRecord* t : arm.trajectories) {
    std::vector<double> call, exe, strict, correct, speed, log_speed;
    for (std::size_t index : t->attempts) {
      const AttemptRecord& a = arm.records->attempts[index];
      if (a.iteration != k || a.missing()) continue;
      call.push_back(a.call_ok);
      exe.push_back(a.exe_ok);
      strict.push_back(a.strict_ok);
      correct.push_back(a.correct);
      if (a.correct && a.speedup && *a.speedup > 0) {
        speed.push_back(*a.speedup);
        log_speed.push_back(std::log(*a.speedup));
      }
    }
    if (call.empty()) continue;
    series.call.add(t->task, call);
    series.exe.add(t->task, exe);
    series.strict.add(t->task, strict);
    series.correct.add(t->task, correct);
    if (!speed.empty()) series.measured[t->id] = {t->task, *mean(speed), *mean(log_speed)};
  }
  return series;
}

Series handed_in_series(const Arm& arm, int k) {
  Series series;
  for (const TrajectoryRecord* t : arm.trajectories) {
    const std::optional<std::size_t> index = handed_in(*arm.records, *t, k);
    if (!index) continue;
    const AttemptRecord& a = arm.records->attempts[*index];
    series.call.add(t->task, a.call_ok);
    series.exe.add(t->task, a.exe_ok);
    series.strict.add(t->task, a.strict_ok);
    series.correct.add(t->task, a.correct);
    if (a.correct && a.speedup && *a.speedup > 0) series.measured[t->id] = {t->task, *a.speedup, std::log(*a.speedup)};
  }
  return series;
}

json split_json(const Series& first, const Series& last, double Measured::* value) {
  std::map<std::string, double> at_0, at_k;
  std::map<std::string, std::string> task_of;
  for (const auto& [trajectory, m] : first.measured) {
    at_0[trajectory] = m.*value;
    task_of[trajectory] = m.task;
  }
  for (const auto& [trajectory, m] : last.measured) {
    at_k[trajectory] = m.*value;
    task_of[trajectory] = m.task;
  }
  const Decay d = speedup_decay(at_0, at_k);
  const DecayBounds b = decay_bounds(at_0, at_k, task_of);
  return {{"from", number(d.from)},
          {"from_ci", bounds(b.from)},
          {"to", number(d.to)},
          {"to_ci", bounds(b.to)},
          {"mean_change", number(d.change)},
          {"mean_change_ci", bounds(b.change)},
          {"drift", number(d.drift)},
          {"drift_ci", bounds(b.drift)},
          {"joining", number(d.joining)},
          {"joining_ci", bounds(b.joining)},
          {"leaving", number(d.leaving)},
          {"leaving_ci", bounds(b.leaving)},
          {"stayers", d.stayers},
          {"joiners", d.joiners},
          {"leavers", d.leavers}};
}

json decay_of(const Series& first, const Series& last) {
  json out = split_json(first, last, &Measured::speedup);
  out["log"] = split_json(first, last, &Measured::log);
  return out;
}

// What the judged attempts of a trajectory say of when it was correct.
struct Course {
  bool judged_at_0 = false;
  int first_correct = -1, last = -1;  // iterations; -1: none
};

Course course_of(const Arm& arm, const TrajectoryRecord& trajectory) {
  Course course;
  for (std::size_t index : trajectory.attempts) {
    const AttemptRecord& a = arm.records->attempts[index];
    if (a.missing()) continue;
    course.judged_at_0 = course.judged_at_0 || a.iteration == 0;
    course.last = std::max(course.last, a.iteration);
    if (a.correct && (course.first_correct < 0 || a.iteration < course.first_correct))
      course.first_correct = a.iteration;
  }
  return course;
}

struct Group {  // of trajectories, by the kernels of their first correct round
  int n = 0;
  ByTask speedups;  // of those that were timed

  json to_json() const {
    const std::vector<double> all = pooled(speedups);
    return {{"n", n},
            {"n_measured", all.size()},
            {"mean", number(mean(all))},
            {"mean_ci", bounds(pooled_bounds(speedups, mean))},
            {"geomean", number(geomean(all))},
            {"geomean_ci", bounds(pooled_bounds(speedups, geomean))},
            {"median", number(median(all))},
            {"median_ci", bounds(pooled_bounds(speedups, median))}};
  }
};

// Correct, and whether it is fast is not known.
bool speed_unknown(const AttemptRecord& a) { return a.correct && !a.speedup && !a.not_fast_untimed(); }

}  // namespace

json proportion_json(const std::map<std::string, Counted>& by_task) {
  Counted all;
  for (const auto& [task, counted] : by_task) {
    all.passed += counted.passed;
    all.of += counted.of;
  }
  return {{"rate", all.of ? json(static_cast<double>(all.passed) / static_cast<double>(all.of)) : json(nullptr)},
          {"count", all.passed},
          {"of", all.of},
          {"ci", bounds(proportion_bounds(by_task))}};
}

json iterations_json(const Arm& arm) {
  json rows = json::array();
  for (int k = 0; k <= arm.last; ++k) rows.push_back(handed_in_series(arm, k).to_json(k));
  return rows;
}

json iterations_round_json(const Arm& arm) {
  json rows = json::array();
  for (int k = 0; k <= arm.last; ++k) rows.push_back(round_series(arm, k).to_json(k));
  return rows;
}

json decay_json(const Arm& arm) {
  json out = decay_of(handed_in_series(arm, 0), handed_in_series(arm, arm.last));
  out["round"] = decay_of(round_series(arm, 0), round_series(arm, arm.last));
  if (arm.last == 0) {
    // One iteration: from and to are one figure, and a change of 0 would read as a finding.
    for (json* split : {&out, &out["log"], &out["round"], &out["round"]["log"]}) {
      for (const char* key : {"mean_change", "drift", "joining", "leaving"}) {
        (*split)[key] = nullptr;
        (*split)[std::string(key) + "_ci"] = nullptr;
      }
    }
  }
  out["series"] = "handed_in";
  return out;
}

json repair_json(const Arm& arm) {
  std::vector<FirstCorrect> kernels;
  Group rescued, initial;
  std::map<int, Group> by_iteration;
  int missing_at_0 = 0;
  for (const TrajectoryRecord* t : arm.trajectories) {
    const Course course = course_of(arm, *t);
    if (!course.judged_at_0) {  // not known to have failed at first
      missing_at_0 += !t->attempts.empty();
      continue;
    }
    const int first = course.first_correct;
    if (first < 0) continue;
    std::vector<double> logs;
    for (std::size_t index : t->attempts) {
      const AttemptRecord& a = arm.records->attempts[index];
      if (a.iteration == first && a.correct && a.speedup && *a.speedup > 0) logs.push_back(std::log(*a.speedup));
    }
    std::vector<Group*> groups = {first > 0 ? &rescued : &initial};
    if (first > 0) groups.push_back(&by_iteration[first]);
    for (Group* group : groups) {
      ++group->n;
      if (!logs.empty()) group->speedups[t->task].push_back(std::exp(*mean(logs)));
    }
    if (!logs.empty()) kernels.push_back({t->task, first > 0, *mean(logs)});
  }
  const RepairBias bias = repair_bias(kernels);
  json out;
  out["rescued"] = rescued.to_json();
  json rows = json::array();
  for (const auto& [iteration, group] : by_iteration) {
    rows.push_back(group.to_json());
    rows.back()["iteration"] = iteration;
  }
  out["rescued"]["by_iteration"] = rows;
  out["initial"] = initial.to_json();
  out["missing_at_0"] = missing_at_0;
  out["ratio_geomean"] = number(bias.ratio);
  out["ci"] = bounds(bias.ci);
  out["within_task"] = {
      {"pairs", bias.within_tasks}, {"ratio_geomean", number(bias.within_ratio)}, {"ci", bounds(bias.within_ci)}};
  return out;
}

// The last handed-in attempt's share of tasks: correct, and correct at least p times the baseline.
json fast_p_json(const Arm& arm) {
  json out;
  for (const auto& [key, p] :
       std::vector<std::pair<std::string, double>>{{"1", 1}, {"1.2", 1.2}, {"1.5", 1.5}, {"2", 2}}) {
    Rate rate;
    bool measured = arm.records->times_kernels;
    for (const TrajectoryRecord* t : arm.trajectories) {
      const std::optional<std::size_t> index = handed_in(*arm.records, *t, arm.last);
      if (!index) continue;
      const AttemptRecord& a = arm.records->attempts[*index];
      measured = measured || a.speedup.has_value();
      if (!speed_unknown(a)) rate.add(t->task, a.correct && a.speedup && *a.speedup >= p);
    }
    out[key] = measured && rate.attempts > 0 ? rate.to_json() : json(nullptr);
  }
  return out;
}

json total_outcome_json(const Arm& arm) {
  ByTask by_task;
  bool measured = arm.records->times_kernels;
  int rejected = 0, too_slow = 0, left_out = 0;
  for (const TrajectoryRecord* t : arm.trajectories) {
    const std::optional<std::size_t> index = handed_in(*arm.records, *t, arm.last);
    if (!index) continue;
    const AttemptRecord& a = arm.records->attempts[*index];
    measured = measured || a.speedup.has_value();
    left_out += speed_unknown(a);
    if (speed_unknown(a)) continue;
    rejected += a.not_fast_untimed() && !a.too_slow;
    too_slow += a.not_fast_untimed() && a.too_slow;
    by_task[t->task].push_back(a.correct && a.speedup && *a.speedup > 0 ? std::log(*a.speedup) : 0.0);
  }
  if (!measured || by_task.empty()) return nullptr;
  std::vector<double> logs;
  for (const auto& [task, values] : by_task) logs.push_back(*mean(values));
  return {{"geomean", std::exp(*mean(logs))},
          {"n", logs.size()},
          {"rejected", rejected},
          {"too_slow", too_slow},
          {"left_out", left_out},
          {"ci", bounds(bootstrap_tasks(logs.size(),
                                        [&logs](const std::vector<std::size_t>& sample) -> std::optional<double> {
                                          double sum = 0;
                                          for (std::size_t i : sample) sum += logs[i];
                                          return std::exp(sum / static_cast<double>(sample.size()));
                                        }))}};
}

// The seed's three barriers over judged attempts: call, exe given call, FAST given correct.
json barriers_json(const Arm& arm) {
  std::map<std::string, Counted> call, exe, fast;
  for (const TrajectoryRecord* t : arm.trajectories)
    for (std::size_t index : t->attempts) {
      const AttemptRecord& a = arm.records->attempts[index];
      if (a.missing()) continue;
      ++call[t->task].of;
      call[t->task].passed += a.call_ok;
      exe[t->task].of += a.call_ok;
      exe[t->task].passed += a.call_ok && a.exe_ok;
      fast[t->task].of += a.correct && !speed_unknown(a);
      fast[t->task].passed += a.correct && a.speedup && a.perf_verdict == "FAST";
    }
  return {{"call", proportion_json(call)},
          {"exe_given_call", proportion_json(exe)},
          {"fast_given_correct", proportion_json(fast)}};
}

json rescue_json(const Arm& arm) {  // Kaplan-Meier over iterations, from a first round that was judged and failed
  std::map<std::string, Rescues> by_task;
  int missing_at_0 = 0, failed_at_0 = 0;
  std::size_t length = 1;
  for (const TrajectoryRecord* t : arm.trajectories) {
    const Course course = course_of(arm, *t);
    if (!course.judged_at_0) {
      missing_at_0 += !t->attempts.empty();
      continue;
    }
    if (course.first_correct == 0) continue;
    ++failed_at_0;
    const bool rescued = course.first_correct > 0;
    const std::size_t k = static_cast<std::size_t>(rescued ? course.first_correct : course.last);
    std::vector<int>& at = rescued ? by_task[t->task].rescued : by_task[t->task].censored;
    if (at.size() <= k) at.resize(k + 1);
    ++at[k];
    length = std::max(length, k + 1);
  }
  std::vector<Rescues> tasks;
  for (auto& [task, rescues] : by_task) {
    rescues.rescued.resize(length);
    rescues.censored.resize(length);
    tasks.push_back(rescues);
  }
  const auto sum = [&tasks, length](const std::vector<std::size_t>& sample) {
    Rescues all{std::vector<int>(length), std::vector<int>(length)};
    for (std::size_t i : sample)
      for (std::size_t k = 0; k < length; ++k) {
        all.rescued[k] += tasks[i].rescued[k];
        all.censored[k] += tasks[i].censored[k];
      }
    return all;
  };
  std::vector<std::size_t> everyone(tasks.size());
  for (std::size_t i = 0; i < everyone.size(); ++i) everyone[i] = i;
  const Rescues all = sum(everyone);
  const std::vector<double> shares = rescued_share(all);
  const std::vector<std::optional<Bounds>> intervals =
      bootstrap_tasks(tasks.size(), length, [&sum](const std::vector<std::size_t>& sample) {
        const std::vector<double> drawn = rescued_share(sum(sample));
        return std::vector<std::optional<double>>(drawn.begin(), drawn.end());
      });
  json rows = json::array();
  int risk = failed_at_0 - all.censored[0];
  for (std::size_t k = 1; k < length; ++k) {
    rows.push_back({{"iteration", k},
                    {"at_risk", risk},
                    {"rescued", all.rescued[k]},
                    {"rescued_share", shares[k]},
                    {"rescued_share_ci", bounds(intervals[k])}});
    risk -= all.rescued[k] + all.censored[k];
  }
  return {{"failed_at_0", failed_at_0}, {"missing_at_0", missing_at_0}, {"by_iteration", rows}};
}

json parent_child_json(const std::map<std::string, std::vector<double>>& ratios) {
  const std::vector<double> all = pooled(ratios);
  return {{"geomean", number(geomean(all))},
          {"geomean_ci", bounds(pooled_bounds(ratios, geomean))},
          {"n", all.size()},
          {"source", "baseline_ratio"}};
}

std::vector<CategoryRates> by_category(const Arm& arm) {
  std::map<std::string, std::pair<Rate, Rate>> rates;
  for (const TrajectoryRecord* t : arm.trajectories)
    if (const std::optional<std::size_t> index = handed_in(*arm.records, *t, arm.last)) {
      rates[t->category].first.add(t->task, arm.records->attempts[*index].call_ok);
      rates[t->category].second.add(t->task, arm.records->attempts[*index].exe_ok);
    }
  std::vector<CategoryRates> rows;
  for (const auto& [category, of] : rates) rows.push_back({category, of.first.to_json(), of.second.to_json()});
  return rows;
}

}  // namespace anneal::transitions
