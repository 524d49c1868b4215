#include "transitions/report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "transitions/design.h"
#include "transitions/harvest.h"
#include "transitions/statistics.h"

namespace anneal::transitions {
namespace {

using nlohmann::json;

struct Arm {  // one (method, model)
  std::vector<const TrajectoryRecord*> trajectories;
  const Records* records = nullptr;
};

json number(std::optional<double> value) { return value ? json(*value) : json(nullptr); }
json bounds(std::optional<Bounds> value) { return value ? json::array({value->lo, value->hi}) : json(nullptr); }

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
    std::optional<Bounds> ci;
    if (plain)
      ci = wilson(whole, static_cast<std::int64_t>(tasks.size()));
    else
      ci = bootstrap_tasks(tasks.size(), [&tasks](const std::vector<std::size_t>& sample) -> std::optional<double> {
        double sum = 0;
        for (std::size_t i : sample) sum += tasks[i];
        return sum / static_cast<double>(sample.size());
      });
    return {{"rate", number(mean(tasks))}, {"count", passed}, {"of", attempts}, {"ci", bounds(ci)}};
  }
};

struct Series {  // of one iteration
  Rate call, exe, strict, correct;
  std::vector<double> speedups;
  std::map<std::string, double> measured;      // trajectory -> speedup (correct and measured)
  std::map<std::string, double> measured_log;  // trajectory -> mean log speedup

  json to_json(int iteration) const {
    std::vector<double> logs;
    for (const auto& [trajectory, log] : measured_log) logs.push_back(log);
    const std::optional<double> mean_log = mean(logs);
    std::int64_t slower = 0;
    for (double s : speedups) slower += s < 1;
    const json c = call.to_json(), e = exe.to_json(), s = strict.to_json(), a = correct.to_json();
    return {
        {"iteration", iteration},
        {"call_rate", c["rate"]},
        {"call", c},
        {"exe_rate", e["rate"]},
        {"exe", e},
        {"strict_rate", s["rate"]},
        {"strict", s},
        {"correct_rate", a["rate"]},
        {"correct", a},
        {"speedup_mean", number(mean(speedups))},
        {"speedup_geomean", mean_log ? json(std::exp(*mean_log)) : json(nullptr)},
        {"slower_than_baseline_share",
         speedups.empty() ? json(nullptr) : json(static_cast<double>(slower) / static_cast<double>(speedups.size()))},
        {"slower_than_baseline",
         {{"count", slower},
          {"of", speedups.size()},
          {"ci", bounds(wilson(slower, static_cast<std::int64_t>(speedups.size())))}}},
        {"n", call.by_task.size()},
        {"n_measured", speedups.size()}};
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
    if (!speed.empty()) {
      series.speedups.push_back(*mean(speed));
      series.measured[t->id] = *mean(speed);
      series.measured_log[t->id] = *mean(log_speed);
    }
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
    if (a.correct && a.speedup && *a.speedup > 0) {
      series.speedups.push_back(*a.speedup);
      series.measured[t->id] = *a.speedup;
      series.measured_log[t->id] = std::log(*a.speedup);
    }
  }
  return series;
}

json decay_json(const Decay& d) {
  return {{"from", number(d.from)},   {"to", number(d.to)},           {"mean_change", number(d.change)},
          {"drift", number(d.drift)}, {"joining", number(d.joining)}, {"leaving", number(d.leaving)},
          {"stayers", d.stayers},     {"joiners", d.joiners},         {"leavers", d.leavers}};
}

json decay_of(const Series& first, const Series& last) {
  json out = decay_json(speedup_decay(first.measured, last.measured));
  out["log"] = decay_json(speedup_decay(first.measured_log, last.measured_log));
  return out;
}

json repair_json(const Arm& arm) {
  std::vector<FirstCorrect> kernels;
  std::vector<double> rescued, initial;
  std::map<int, std::vector<double>> by_iteration;
  int rescued_trajectories = 0, initial_trajectories = 0;
  for (const TrajectoryRecord* t : arm.trajectories) {
    int first = -1;
    for (std::size_t index : t->attempts) {
      const AttemptRecord& a = arm.records->attempts[index];
      if (a.correct && !a.missing() && (first < 0 || a.iteration < first)) first = a.iteration;
    }
    if (first < 0) continue;
    ++(first > 0 ? rescued_trajectories : initial_trajectories);
    std::vector<double> logs;
    for (std::size_t index : t->attempts) {
      const AttemptRecord& a = arm.records->attempts[index];
      if (a.iteration == first && a.correct && a.speedup && *a.speedup > 0) logs.push_back(std::log(*a.speedup));
    }
    if (logs.empty()) continue;
    kernels.push_back({t->task, first > 0, *mean(logs)});
    (first > 0 ? rescued : initial).push_back(std::exp(*mean(logs)));
    if (first > 0) by_iteration[first].push_back(std::exp(*mean(logs)));
  }
  const auto group = [](int n, const std::vector<double>& values) {
    return json{{"n", n},
                {"n_measured", values.size()},
                {"mean", number(mean(values))},
                {"geomean", number(geomean(values))},
                {"median", number(median(values))}};
  };
  const RepairBias bias = repair_bias(kernels);
  json out;
  out["rescued"] = group(rescued_trajectories, rescued);
  json rows = json::array();
  for (const auto& [iteration, values] : by_iteration)
    rows.push_back({{"iteration", iteration},
                    {"n", values.size()},
                    {"mean", number(mean(values))},
                    {"geomean", number(geomean(values))},
                    {"median", number(median(values))}});
  out["rescued"]["by_iteration"] = rows;
  out["initial"] = group(initial_trajectories, initial);
  out["ratio_geomean"] = number(bias.ratio);
  out["ci"] = bounds(bias.ci);
  out["within_task"] = {
      {"pairs", bias.within_tasks}, {"ratio_geomean", number(bias.within_ratio)}, {"ci", bounds(bias.within_ci)}};
  return out;
}

void count(json& into, const std::string& key, double amount = 1) {
  if (!into.contains(key))
    into[key] = amount;
  else
    into[key] = into[key].get<double>() + amount;
}

std::string failure_class(const AttemptRecord& a) {
  if (a.reply_class != "ok") return a.reply_class;
  if (!a.call_ok) return a.call_class;
  if (!a.strict_ok) return a.exe_class;
  return a.policy_class;
}

// The last handed-in attempt's share of tasks: correct, and correct at least p times the baseline.
json fast_p_json(const Arm& arm, int last) {
  json out;
  for (const auto& [key, p] :
       std::vector<std::pair<std::string, double>>{{"1", 1}, {"1.2", 1.2}, {"1.5", 1.5}, {"2", 2}}) {
    Rate rate;
    bool measured = false;
    for (const TrajectoryRecord* t : arm.trajectories) {
      const std::optional<std::size_t> index = handed_in(*arm.records, *t, last);
      if (!index) continue;
      const AttemptRecord& a = arm.records->attempts[*index];
      // A correct kernel without a timing is unknown, not slow.
      if (a.correct && !a.speedup) continue;
      measured = measured || a.speedup.has_value();
      rate.add(t->task, a.correct && *a.speedup >= p);
    }
    out[key] = measured ? rate.to_json() : json(nullptr);
  }
  return out;
}

json total_outcome_json(const Arm& arm, int last) {
  std::map<std::string, std::vector<double>> by_task;
  bool measured = false;
  for (const TrajectoryRecord* t : arm.trajectories) {
    const std::optional<std::size_t> index = handed_in(*arm.records, *t, last);
    if (!index) continue;
    const AttemptRecord& a = arm.records->attempts[*index];
    if (a.correct && !a.speedup) continue;
    measured = measured || a.speedup.has_value();
    by_task[t->task].push_back(a.correct && *a.speedup > 0 ? std::log(*a.speedup) : 0.0);
  }
  if (!measured) return nullptr;
  std::vector<double> logs;
  for (const auto& [task, values] : by_task) logs.push_back(*mean(values));
  return {{"geomean", std::exp(*mean(logs))},
          {"n", logs.size()},
          {"ci", bounds(bootstrap_tasks(logs.size(),
                                        [&logs](const std::vector<std::size_t>& sample) -> std::optional<double> {
                                          double sum = 0;
                                          for (std::size_t i : sample) sum += logs[i];
                                          return std::exp(sum / static_cast<double>(sample.size()));
                                        }))}};
}

// The seed's three barriers over judged attempts: call, exe given call, FAST given correct.
json barriers_json(const Arm& arm) {
  std::int64_t n = 0, call = 0, exe = 0, timed = 0, fast = 0;
  for (const TrajectoryRecord* t : arm.trajectories)
    for (std::size_t index : t->attempts) {
      const AttemptRecord& a = arm.records->attempts[index];
      if (a.missing()) continue;
      ++n;
      call += a.call_ok;
      exe += a.call_ok && a.exe_ok;
      timed += a.correct && a.speedup.has_value();
      fast += a.correct && a.speedup.has_value() && a.perf_verdict == "FAST";
    }
  const auto proportion = [](std::int64_t k, std::int64_t of) {
    return json{{"rate", of ? json(static_cast<double>(k) / static_cast<double>(of)) : json(nullptr)},
                {"count", k},
                {"of", of},
                {"ci", bounds(wilson(k, of))}};
  };
  return {{"call", proportion(call, n)},
          {"exe_given_call", proportion(exe, call)},
          {"fast_given_correct", proportion(fast, timed)}};
}

json rescue_json(const Arm& arm) {  // Kaplan-Meier over iterations, from a failed first round
  std::map<int, int> events, censored;
  int at_risk = 0;
  for (const TrajectoryRecord* t : arm.trajectories) {
    int first = -1, last = -1;
    for (std::size_t index : t->attempts) {
      const AttemptRecord& a = arm.records->attempts[index];
      if (a.missing()) continue;
      last = std::max(last, a.iteration);
      if (a.correct && (first < 0 || a.iteration < first)) first = a.iteration;
    }
    if (last < 0 || first == 0) continue;
    ++at_risk;
    if (first > 0)
      ++events[first];
    else
      ++censored[last];
  }
  json rows = json::array();
  double survival = 1;
  int risk = at_risk - censored[0];
  const int end = std::max(events.empty() ? 0 : events.rbegin()->first, censored.rbegin()->first);
  for (int k = 1; k <= end; ++k) {
    if (risk > 0) survival *= 1 - static_cast<double>(events[k]) / risk;
    rows.push_back({{"iteration", k}, {"at_risk", risk}, {"rescued", events[k]}, {"rescued_share", 1 - survival}});
    risk -= events[k] + censored[k];
  }
  return {{"failed_at_0", at_risk}, {"by_iteration", rows}};
}

}  // namespace

Result<nlohmann::json> report(const std::vector<std::filesystem::path>& files) {
  std::vector<Records> all;
  std::vector<std::vector<Transition>> transitions;
  for (const std::filesystem::path& file : files) {
    Result<std::unique_ptr<Database>> db = Database::open(file, Database::Mode::read_only);
    if (!db) return tl::unexpected<Error>(db.error());
    try {
      SQLite::Transaction snapshot((*db)->sql());
      all.push_back(read_records(**db));
      transitions.push_back(derive_transitions(**db, all.back()));
    } catch (const std::exception& error) {
      return tl::unexpected<Error>(database_error(file, error));
    }
  }
  json out;
  std::set<std::string> devices, experiments;
  for (const Records& r : all) {
    experiments.insert(r.experiment);
    devices.insert(r.devices.begin(), r.devices.end());
  }
  std::string names;
  for (const std::string& name : experiments) names += (names.empty() ? "" : ", ") + name;
  out["experiment"] = names;
  out["devices"] = devices;
  out["bootstrap"] = {{"draws", kBootstrapDraws}, {"seed", kBootstrapSeed}, {"over", "tasks"}};
  out["methods"] = json::array();
  for (const char* key : {"barriers", "fast_p", "total_outcome", "time_to_rescue"}) out[key] = json::object();
  json categories = json::array(), failures = json::object(), flags = json::object();
  std::int64_t same_code_pairs = 0, flaky_pairs = 0;
  std::set<std::string> all_tasks;
  for (std::size_t f = 0; f < all.size(); ++f) {
    const Records& records = all[f];
    std::map<std::pair<std::string, std::string>, Arm> arms;
    std::map<std::string, std::pair<std::string, std::string>> arm_of;
    for (const TrajectoryRecord& t : records.trajectories) {
      Arm& arm = arms[{t.method, t.model}];
      arm.records = &records;
      arm.trajectories.push_back(&t);
      arm_of[t.id] = {t.method, t.model};
    }
    for (const auto& [key, arm] : arms) {
      json m;
      // The parts of a sharded experiment are files of their own.
      std::string arm_name = key.first + "@" + key.second;
      for (int n = 2; out["barriers"].contains(arm_name); ++n)
        arm_name = key.first + "@" + key.second + "#" + std::to_string(n);
      m["key"] = arm_name;
      m["experiment"] = records.experiment;
      m["method"] = key.first;
      m["model"] = key.second;
      std::set<int> seeds;
      std::set<std::string> tasks;
      int last = 0;
      std::int64_t calls = 0, api_errors = 0, prompt = 0, completion = 0, unjudged = 0, attempts = 0;
      json reply_classes = json::object(), states = json::object(),
           arm_failures = {{"call", json::object()}, {"exe", json::object()}, {"policy", json::object()}};
      std::map<std::string, std::pair<Rate, Rate>> by_category;
      for (const TrajectoryRecord* t : arm.trajectories) {
        seeds.insert(t->seed);
        tasks.insert(t->task);
        all_tasks.insert(t->task);
        calls += t->calls;
        api_errors += t->api_errors;
        prompt += t->prompt_tokens;
        completion += t->completion_tokens;
        count(states, t->state_name());
        for (std::size_t index : t->attempts) {
          const AttemptRecord& a = records.attempts[index];
          ++attempts;
          last = std::max(last, a.iteration);
          count(reply_classes, a.reply_class);
          if (a.missing()) {
            unjudged += a.reply_class == "ok";
            continue;
          }
          if (!a.correct) {
            const char* stage = stage_of(a) == "call" ? "call" : !a.strict_ok ? "exe" : "policy";
            count(arm_failures[stage], failure_class(a));
            if (!failures.contains(stage)) failures[stage] = json::object();
            count(failures[stage], failure_class(a));
          }
          const json list = json::parse(a.flags_json.empty() ? "[]" : a.flags_json, nullptr, false);
          if (list.is_array())
            for (const json& flag : list)
              if (flag.is_string()) count(flags, printable(flag.get<std::string>()));
        }
      }
      m["seeds"] = seeds.size();
      m["tasks"] = tasks.size();
      json rounds = json::array(), handed = json::array();
      for (int k = 0; k <= last; ++k) {
        handed.push_back(handed_in_series(arm, k).to_json(k));
        rounds.push_back(round_series(arm, k).to_json(k));
      }
      m["iterations"] = handed;
      m["iterations_round"] = rounds;
      m["repair_bias"] = repair_json(arm);
      m["speedup_decay"] = decay_of(handed_in_series(arm, 0), handed_in_series(arm, last));
      m["speedup_decay"]["series"] = "handed_in";
      m["speedup_decay"]["round"] = decay_of(round_series(arm, 0), round_series(arm, last));
      json kinds = json::object(), weighted = json::object();
      std::vector<double> ratios;
      for (const Transition& t : transitions[f]) {
        const AttemptRecord& child = records.attempts[t.child];
        if (arm_of.at(child.trajectory) != key) continue;
        count(kinds, t.kind);
        count(weighted, t.kind, t.weight);
        if (t.ratio) ratios.push_back(*t.ratio);
        // Only a second evaluation can disagree: a verdict that was found again is the same one.
        const AttemptRecord& parent = records.attempts[t.parent];
        if (!child.normalised_sha256.empty() && parent.normalised_sha256 == child.normalised_sha256 &&
            parent.evaluation != child.evaluation) {
          ++same_code_pairs;
          flaky_pairs += t.kind == "flaky";
        }
      }
      m["transitions"] = kinds;
      m["transitions_weighted"] = weighted;
      m["parent_child_ratio"] = {
          {"geomean", number(geomean(ratios))}, {"n", ratios.size()}, {"source", "baseline_ratio"}};
      out["fast_p"][arm_name] = fast_p_json(arm, last);
      out["total_outcome"][arm_name] = total_outcome_json(arm, last);
      out["barriers"][arm_name] = barriers_json(arm);
      out["time_to_rescue"][arm_name] = rescue_json(arm);
      m["fixes"] = nullptr;
      m["usd"] = nullptr;
      m["reply_classes"] = reply_classes;
      m["failure_classes"] = arm_failures;
      m["trajectories"] = states;
      m["attempts"] = attempts;
      m["not_judged"] = unjudged;
      m["calls"] = calls;
      m["api_errors"] = api_errors;
      m["tokens"] = prompt + completion;
      m["prompt_tokens"] = prompt;
      m["completion_tokens"] = completion;
      for (const TrajectoryRecord* t : arm.trajectories)
        if (const std::optional<std::size_t> index = handed_in(records, *t, last)) {
          by_category[t->category].first.add(t->task, records.attempts[*index].call_ok);
          by_category[t->category].second.add(t->task, records.attempts[*index].exe_ok);
        }
      for (const auto& [category, rates] : by_category) {
        const json call = rates.first.to_json(), exe = rates.second.to_json();
        categories.push_back({{"category", category},
                              {"method", key.first},
                              {"model", key.second},
                              {"call_rate", call["rate"]},
                              {"exe_rate", exe["rate"]},
                              {"call", call},
                              {"exe", exe}});
      }
      out["methods"].push_back(std::move(m));
    }
  }
  out["failure_classes"] = failures;
  out["flags"] = flags;
  out["flaky_rate"] = {
      {"rate",
       same_code_pairs ? json(static_cast<double>(flaky_pairs) / static_cast<double>(same_code_pairs)) : json(nullptr)},
      {"count", flaky_pairs},
      {"of", same_code_pairs}};
  out["categories"] = categories;
  // Asked for, but not computed by this version: null, and a text that says so.
  json& missing = out["not_measured"] = json::object();
  for (const auto& [key, why] : std::vector<std::pair<std::string, std::string>>{
           {"explained_deviance", "not measured: the permutation tests are not implemented"},
           {"portability", "not measured: one device a file"}}) {
    out[key] = nullptr;
    missing[key] = why;
  }
  missing["methods.fixes"] = "not measured: edits are not labelled";
  missing["methods.usd"] = "not measured: no prices are known";
  out["detectable_difference"] = nullptr;
  if (const double points = detectable_difference(static_cast<int>(all_tasks.size()), 0.2); points < 1)
    out["detectable_difference"] = points;
  else
    missing["detectable_difference"] = "not measured: too few tasks for a paired comparison";
  for (const auto& [arm, value] : out["total_outcome"].items())
    if (value.is_null()) missing["total_outcome." + arm] = "not measured: no kernel was timed";
  for (const auto& [arm, value] : out["fast_p"].items())
    if (value["1"].is_null()) missing["fast_p." + arm] = "not measured: no kernel was timed";
  return out;
}

}  // namespace anneal::transitions
