#include "transitions/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "transitions/design.h"
#include "transitions/diff.h"
#include "transitions/ids.h"

namespace anneal::transitions {
namespace {

TEST(Statistics, RepairBiasMatchesTheWorkedExample) {
  const RepairBias bias = repair_bias(
      {{"A", false, std::log(2.0)}, {"A", true, 0}, {"B", false, 0}, {"B", true, 0}, {"C", true, std::log(0.5)}});
  EXPECT_NEAR(*bias.ratio, 0.561, 5e-4);
  EXPECT_NEAR(*bias.within_ratio, 0.707, 5e-4);
  EXPECT_EQ(bias.within_tasks, 2);
  EXPECT_EQ(bias.rescued, 3);
  EXPECT_EQ(bias.initial, 2);
}

TEST(Statistics, SpeedupDecayMatchesTheWorkedExample) {
  std::map<std::string, double> first, last;
  for (int i = 0; i < 32; ++i) first["s" + std::to_string(i)] = last["s" + std::to_string(i)] = 1.58;
  for (int i = 0; i < 21; ++i) last["n" + std::to_string(i)] = 1.21;
  const Decay decay = speedup_decay(first, last);
  EXPECT_NEAR(*decay.to, 1.433, 5e-4);
  EXPECT_NEAR(*decay.drift, 0, 1e-12);
  EXPECT_NEAR(*decay.joining, -0.147, 5e-4);
  EXPECT_EQ(*decay.leaving, 0);
}

TEST(Statistics, SpeedupDecaySplitAddsUpExactlyWithLeavers) {
  const Decay d = speedup_decay({{"a", 1}, {"b", 3}, {"c", 5}}, {{"a", 2}, {"b", 2}, {"d", 7}});
  EXPECT_NEAR(*d.change, *d.drift + *d.joining + *d.leaving, 1e-12);
  EXPECT_NEAR(*d.leaving, -(1.0 / 3) * (5 - 2), 1e-12);
}

TEST(Statistics, SpeedupDecayLeavesTheSplitUndefinedWithoutStayers) {
  const Decay d = speedup_decay({{"a", 1}}, {{"b", 2}});
  EXPECT_EQ(*d.change, 1);
  EXPECT_FALSE(d.drift);
}

TEST(Statistics, MeansAndWilsonMatchHandValues) {
  EXPECT_NEAR(*geomean({1, 4}), 2, 1e-12);
  EXPECT_FALSE(geomean({1, 0}));
  EXPECT_EQ(*median({3, 1, 2, 10}), 2.5);
  EXPECT_FALSE(mean({}));
  const Bounds w = *wilson(5, 10);  // 0.5 +- 0.2634
  EXPECT_NEAR(w.lo, 0.2366, 1e-4);
  EXPECT_NEAR(w.hi, 0.7634, 1e-4);
  EXPECT_FALSE(wilson(0, 0));
}

TEST(Statistics, BootstrapIsReproducibleAndNeedsTwoTasks) {
  const auto first = [](const std::vector<std::size_t>& s) -> std::optional<double> {
    return static_cast<double>(s[0]);
  };
  EXPECT_FALSE(bootstrap_tasks(1, first));
  EXPECT_EQ(bootstrap_tasks(9, first)->lo, bootstrap_tasks(9, first)->lo);
  EXPECT_EQ(bootstrap_tasks(9, first)->hi, 8);
}

TEST(Diff, CountsAndShowsTheSmallestEdit) {
  const DiffSize size = diff_size("a\nb\nc\n", "a\nx\nc\nd\n");
  EXPECT_EQ(size.added, 2);
  EXPECT_EQ(size.removed, 1);
  EXPECT_EQ(unified_diff("a\nb\nc\n", "a\nx\nc\n"), "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n");
  EXPECT_EQ(unified_diff("a\n", "a\n"), "");
  EXPECT_EQ(unified_diff("", "a\n"), "@@ -0,0 +1,1 @@\n+a\n");
}

TEST(Diff, DoesNotSearchForTheSmallestEditOfTextsThatShareLittle) {
  std::string before = "begin\n", after = "begin\n";
  for (int i = 0; i < 300'000; ++i) {
    before += "a" + std::to_string(i) + "\n";
    after += "b" + std::to_string(i) + "\n";
  }
  const DiffSize size = diff_size(before + "end\n", after + "more\nend\n");
  EXPECT_EQ(size.added, 300'001);
  EXPECT_EQ(size.removed, 300'000);
  const std::string text = unified_diff(before + "end\n", after + "end\n");
  EXPECT_TRUE(text.starts_with("@@ -1,300002 +1,300002 @@\n begin\n-a0\n-a1\n")) << text.substr(0, 80);
  EXPECT_TRUE(text.ends_with("+b299999\n end\n")) << text.substr(text.size() - 80);
}

TEST(Ids, AreUuidsOfVersionFiveAndDependOnPartBoundaries) {
  const std::string id = make_id({"a", "b"});
  EXPECT_EQ(id.size(), 36u);
  EXPECT_EQ(id[14], '5');
  EXPECT_EQ(id, make_id({"a", "b"}));
  EXPECT_NE(id, make_id({"ab"}));
}

TEST(Design, DetectsThePublishedDifference) {
  EXPECT_NEAR(detectable_difference(176, 0.2), 0.094, 0.0005);
  EXPECT_EQ(detectable_difference(5, 0.2), 1);
}

TEST(ProportionBounds, AreAsWideAsTheTasksAreFewWhereAllUnitsAgree) {
  const auto none = proportion_bounds({{"a", {0, 4}}, {"b", {0, 4}}}),
             all = proportion_bounds({{"a", {4, 4}}, {"b", {4, 4}}});
  const auto two = wilson(0, 2);
  ASSERT_TRUE(none && all && two);
  EXPECT_DOUBLE_EQ(none->lo, 0);
  EXPECT_DOUBLE_EQ(none->hi, two->hi);
  EXPECT_DOUBLE_EQ(all->lo, 1 - two->hi);
  EXPECT_DOUBLE_EQ(all->hi, 1);
}

}  // namespace
}  // namespace anneal::transitions
