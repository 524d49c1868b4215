#include "transitions/figures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace anneal::transitions {
namespace {

using nlohmann::json;

// One arm, made by hand: `attempt` adds to the trajectory of (task, seed).
struct Made {
  Records records;

  AttemptRecord& attempt(const std::string& task, int iteration, bool correct, std::optional<double> speedup = {},
                         int seed = 0) {
    const std::string id = task + std::to_string(seed);
    if (records.trajectories.empty() || records.trajectories.back().id != id) {
      records.trajectories.emplace_back();
      records.trajectories.back().id = id;
      records.trajectories.back().task = task;
      records.trajectories.back().seed = seed;
    }
    records.trajectories.back().attempts.push_back(records.attempts.size());
    AttemptRecord a;
    a.iteration = iteration;
    a.reply_class = "ok";
    a.judged = a.call_ok = true;
    a.exe_ok = a.strict_ok = a.correct = correct;
    a.speedup = speedup;
    a.perf_status = speedup ? "measured" : "not_measured";
    records.attempts.push_back(a);
    return records.attempts.back();
  }

  Arm arm() const {
    Arm arm;
    arm.records = &records;
    for (const TrajectoryRecord& t : records.trajectories) arm.trajectories.push_back(&t);
    for (const AttemptRecord& a : records.attempts) arm.last = std::max(arm.last, a.iteration);
    return arm;
  }
};

// 12 attempts each of 6 tasks that pass and 6 that fail. Of 12 tasks drawn 3 to 9 pass in all but 2 x 1.9 % of the
// draws.
TEST(Figures, BarriersDrawTasksWhereAttemptsAreClustered) {
  Made made;
  for (int task = 0; task < 12; ++task)
    for (int n = 0; n < 12; ++n) made.attempt("t" + std::to_string(10 + task), 0, false).call_ok = task < 6;
  const json call = barriers_json(made.arm())["call"];
  EXPECT_EQ(call["rate"], 0.5);
  EXPECT_EQ(call["of"], 144);
  EXPECT_NEAR(call["ci"][0].get<double>(), 0.25, 1e-12);
  EXPECT_NEAR(call["ci"][1].get<double>(), 0.75, 1e-12);
}

// Every bootstrap draw of them is 0; more seeds must not claim certainty.
TEST(Figures, ARateThatAllTasksAgreeOnHasWilsonsInterval) {
  Made made;
  for (int task = 0; task < 10; ++task)
    for (int seed = 0; seed < 3; ++seed) made.attempt("t" + std::to_string(10 + task), 0, false, {}, seed);
  const json strict = iterations_json(made.arm())[0]["strict"];
  EXPECT_EQ(strict["rate"], 0.0);
  EXPECT_EQ(strict["of"], 30);
  EXPECT_EQ(strict["ci"][0], 0.0);
  EXPECT_NEAR(strict["ci"][1].get<double>(), 0.2775, 1e-4);  // Wilson, 0 of 10
}

TEST(Figures, ProportionsOfOneUnitATaskAreWilsons) {
  const Bounds plain = *proportion_bounds({{"a", {1, 1}}, {"b", {0, 1}}, {"c", {0, 0}}});
  EXPECT_EQ(plain.lo, wilson(1, 2)->lo);
  const Bounds clustered = *proportion_bounds({{"a", {2, 2}}, {"b", {0, 2}}});
  EXPECT_EQ(clustered.lo, 0);
  EXPECT_EQ(clustered.hi, 1);
  EXPECT_FALSE(proportion_bounds({{"a", {1, 2}}}));
}

TEST(Figures, TheShareSlowerThanTheBaselineDrawsTasksWhereSeedsAreClustered) {
  Made made;
  for (int seed : {0, 1}) made.attempt("a", 0, true, 0.5, seed);
  for (int seed : {0, 1}) made.attempt("b", 0, true, 2, seed);
  const json row = iterations_json(made.arm())[0];
  EXPECT_EQ(row["slower_than_baseline_share"], 0.5);
  EXPECT_EQ(row["slower_than_baseline"]["of"], 4);
  EXPECT_EQ(row["slower_than_baseline"]["ci"], json({0.0, 1.0}));
}

TEST(Figures, RescuedByIterationCountsTrajectoriesAsTheWholeDoes) {
  Made made;
  made.attempt("a", 0, false);
  made.attempt("a", 1, true, 2);
  made.attempt("b", 0, false);
  made.attempt("b", 1, true);
  made.attempt("c", 0, false);
  made.attempt("c", 2, true);
  const json rescued = repair_json(made.arm())["rescued"];
  EXPECT_EQ(rescued["n"], 3);
  EXPECT_EQ(rescued["n_measured"], 1);
  ASSERT_EQ(rescued["by_iteration"].size(), 2u);
  EXPECT_EQ(rescued["by_iteration"][0]["n"], 2);
  EXPECT_EQ(rescued["by_iteration"][0]["n_measured"], 1);
  EXPECT_NEAR(rescued["by_iteration"][0]["mean"].get<double>(), 2, 1e-12);
  EXPECT_EQ(rescued["by_iteration"][1]["iteration"], 2);
  EXPECT_TRUE(rescued["by_iteration"][1]["mean"].is_null());
}

void expect_bounds(const json& ci, double lo, double hi) {
  ASSERT_TRUE(ci.is_array()) << ci;
  EXPECT_NEAR(ci[0].get<double>(), lo, 1e-12);
  EXPECT_NEAR(ci[1].get<double>(), hi, 1e-12);
}

// Two tasks: a draw holds both, or one of them twice, a quarter of the draws each.
TEST(Figures, EveryEstimateHasAnInterval) {
  Made made;
  made.attempt("a", 0, true, 1);
  made.attempt("a", 1, true, 2);
  made.attempt("b", 0, true, 1);
  made.attempt("b", 1, true, 4);
  const json row = iterations_json(made.arm())[1], d = decay_json(made.arm());
  expect_bounds(row["speedup_mean_ci"], 2, 4);
  expect_bounds(row["speedup_geomean_ci"], 2, 4);
  EXPECT_EQ(d["drift"], 2);
  expect_bounds(d["drift_ci"], 1, 3);
  expect_bounds(d["mean_change_ci"], 1, 3);
  expect_bounds(d["joining_ci"], 0, 0);
  expect_bounds(d["leaving_ci"], 0, 0);
  expect_bounds(d["log"]["drift_ci"], std::log(2), std::log(4));
  expect_bounds(d["round"]["to_ci"], 2, 4);
  const json ratio = parent_child_json({{"a", {2}}, {"b", {0.5}}});
  EXPECT_NEAR(ratio["geomean"].get<double>(), 1, 1e-12);
  expect_bounds(ratio["geomean_ci"], 0.5, 2);
  const json initial = repair_json(made.arm())["initial"];
  for (const char* key : {"mean_ci", "geomean_ci", "median_ci"}) expect_bounds(initial[key], 1, 1);
}

TEST(Figures, TheRescuedShareHasAnInterval) {
  Made made;
  made.attempt("a", 0, false);
  made.attempt("a", 1, true);
  made.attempt("b", 0, false);
  made.attempt("b", 1, false);
  const json row = rescue_json(made.arm())["by_iteration"][0];
  EXPECT_EQ(row["at_risk"], 2);
  EXPECT_EQ(row["rescued_share"], 0.5);
  expect_bounds(row["rescued_share_ci"], 0, 1);
}

TEST(Figures, ATrajectoryWhoseFirstIterationIsMissingIsNotRescued) {
  Made made;
  made.attempt("a", 0, false);
  made.attempt("a", 1, true, 2);
  made.attempt("b", 0, false).reply_class = "api_error";
  made.attempt("b", 1, true, 8);
  made.attempt("c", 0, false).judged = false;
  made.attempt("c", 1, true, 8);
  made.attempt("d", 0, true, 1);
  const json repair = repair_json(made.arm()), rescue = rescue_json(made.arm());
  EXPECT_EQ(repair["rescued"]["n"], 1);
  EXPECT_EQ(repair["initial"]["n"], 1);
  EXPECT_EQ(repair["missing_at_0"], 2);
  EXPECT_NEAR(repair["ratio_geomean"].get<double>(), 2, 1e-12);
  EXPECT_EQ(rescue["failed_at_0"], 1);
  EXPECT_EQ(rescue["missing_at_0"], 2);
  EXPECT_EQ(rescue["by_iteration"][0]["rescued"], 1);
}

// Four tasks count: one at 2, and three that are not fast. 2^(1/4) = 1.189.
TEST(Figures, RejectedAndTooSlowKernelsAreNotFastAndCountAsOne) {
  Made made;
  made.records.times_kernels = true;
  made.attempt("a", 0, true, 2);
  made.attempt("b", 0, true).perf_status = "rejected";
  made.attempt("c", 0, true).too_slow = true;
  made.attempt("d", 0, false);
  made.attempt("e", 0, true);  // without a perf case
  const json fast = fast_p_json(made.arm()), total = total_outcome_json(made.arm());
  EXPECT_EQ(fast["1"]["rate"], 0.25);
  EXPECT_EQ(fast["2"]["of"], 4);
  EXPECT_NEAR(total["geomean"].get<double>(), 1.1892, 1e-4);
  EXPECT_EQ(total["n"], 4);
  for (const char* key : {"rejected", "too_slow", "left_out"}) EXPECT_EQ(total[key], 1) << key;
  EXPECT_EQ(barriers_json(made.arm())["fast_given_correct"]["of"], 3);
}

TEST(Figures, FastPAndTotalOutcomeNeedADeviceThatTimes) {
  Made made;
  made.attempt("a", 0, true);
  made.attempt("b", 0, false);
  EXPECT_TRUE(fast_p_json(made.arm())["1"].is_null());
  EXPECT_TRUE(total_outcome_json(made.arm()).is_null());
  made.records.times_kernels = true;  // the failure counts; how fast the other one is is not known
  EXPECT_EQ(fast_p_json(made.arm())["1"]["rate"], 0.0);
  EXPECT_EQ(total_outcome_json(made.arm())["geomean"], 1.0);
}

}  // namespace
}  // namespace anneal::transitions
