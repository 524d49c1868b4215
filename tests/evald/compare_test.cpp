#include "evaluator/daemon/compare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "evaluator/daemon/tensors.h"

namespace anneal::evaluator {
namespace {

at::Tensor normal(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  at::manual_seed(1);
  return at::randn(shape).to(dtype);
}

Expected expected(const at::Tensor& exact, at::ScalarType dtype = at::kFloat) {
  return {exact.to(dtype), exact.to(at::kDouble), std::nullopt};
}

TEST(Compare, PassesWhatEqualsTheReference) {
  const at::Tensor x = normal({1000});
  const CaseVerdict verdict = compare_output(x, expected(x), {});
  EXPECT_TRUE(verdict.ok && verdict.strict_ok);
  EXPECT_EQ(verdict.failure_class, "ok");
  EXPECT_EQ(*verdict.max_abs, 0);
}

TEST(Compare, ZerosNeverPassHoweverSmallTheValues) {
  const at::Tensor x = normal({4096}) * 1e-7;
  const CaseVerdict verdict = compare_output(at::zeros_like(x), expected(x), {});
  EXPECT_TRUE(verdict.ok) << "the published absolute tolerance accepts zeros here";
  EXPECT_FALSE(verdict.strict_ok);
}

TEST(Compare, HalfPrecisionInAnFp32TaskIsRefused) {
  const at::Tensor x = normal({4096});
  const CaseVerdict verdict = compare_output(x.to(at::kHalf).to(at::kFloat), expected(x), {});
  EXPECT_FALSE(verdict.ok || verdict.strict_ok);
  EXPECT_EQ(verdict.failure_class, "scale_or_cast");
}

TEST(Compare, ACorrectlyRoundedBf16KernelIsStrictlyRight) {
  const at::Tensor exact = normal({4096}).to(at::kDouble) * 3;
  const CaseVerdict verdict = compare_output(exact.to(at::kBFloat16), expected(exact, at::kBFloat16), {});
  EXPECT_TRUE(verdict.strict_ok);
}

TEST(Compare, OneWrongElementInManyIsFound) {
  const at::Tensor x = normal({1 << 16});
  at::Tensor got = x.clone();
  got[777] += 0.5;
  const CaseVerdict verdict = compare_output(got, expected(x), {});
  EXPECT_FALSE(verdict.ok || verdict.strict_ok);
  ASSERT_FALSE(verdict.worst.empty());
  EXPECT_EQ(verdict.worst[0].index, std::vector<std::int64_t>{777});
  EXPECT_NEAR(verdict.worst[0].got - verdict.worst[0].expected, 0.5, 1e-5);
}

TEST(Compare, EveryElementIsInABlock) {
  for (const std::int64_t n : {2048, 3071, 3072, 1024 * 256 + 255}) {
    at::Tensor x = normal({n});
    x.slice(0, n - 1023) *= 1e-7;  // small beside the rest, so that the rules over all of the output pass
    at::Tensor got = x.clone();
    got.slice(0, n - 1023).zero_();
    const CaseVerdict verdict = compare_output(got, expected(x), {});
    EXPECT_TRUE(verdict.ok);
    EXPECT_FALSE(verdict.strict_ok) << n;
  }
}

TEST(Compare, NanMustStandWhereTheReferenceHasIt) {
  at::Tensor x = normal({16});
  x[3] = NAN;
  EXPECT_TRUE(compare_output(x, expected(x), {}).strict_ok);
  at::Tensor moved = x.clone();
  moved[3] = 0;
  EXPECT_FALSE(compare_output(moved, expected(x), {}).ok);
  EXPECT_FALSE(compare_output(moved, expected(x), {}).strict_ok);
}

TEST(Compare, InfinityMustHaveTheRightSign) {
  at::Tensor x = normal({16});
  x[3] = HUGE_VAL;
  EXPECT_TRUE(compare_output(x, expected(x), {}).strict_ok);
  at::Tensor negative = x.clone();
  negative[3] = -HUGE_VAL;
  EXPECT_FALSE(compare_output(negative, expected(x), {}).strict_ok);
}

TEST(Compare, QuantizationRefusesTheTooExact) {
  const at::Tensor exact = normal({64, 64}).to(at::kDouble);
  const at::Tensor noise = at::randn({64, 64}).to(at::kDouble) * 0.02;
  ComparisonRule rule;
  rule.kind = ComparisonRule::Kind::quantization;
  const Expected wanted{exact.to(at::kFloat), exact, exact + noise};
  EXPECT_EQ(compare_output(exact.to(at::kFloat), wanted, rule).failure_class, "not_quantized");
  // As near as a product in bf16 comes to the exact one, where eight-bit integers are off by `noise`.
  EXPECT_EQ(compare_output((exact + 0.4 * noise).to(at::kFloat), wanted, rule).failure_class, "not_quantized");
  EXPECT_TRUE(compare_output((exact + noise).to(at::kFloat), wanted, rule).ok);
  EXPECT_FALSE(compare_output((exact + 20 * noise).to(at::kFloat), wanted, rule).ok);
}

TEST(Compare, MeasuresTheDistanceOfTheSchemeInItsOwnErrors) {
  const at::Tensor exact = normal({64, 64}).to(at::kDouble);
  const at::Tensor a = at::randn({64, 64}).to(at::kDouble) * 0.02, b = at::randn({64, 64}).to(at::kDouble) * 0.02;
  ComparisonRule rule;
  rule.kind = ComparisonRule::Kind::quantization;
  const Expected wanted{exact, exact, exact + a + b};
  const auto distance = [&](const at::Tensor& got) { return *compare_output(got, wanted, rule).scheme_distance; };
  const double own = (a + b).square().mean().sqrt().item<double>();
  EXPECT_EQ(distance(exact + a + b), 0);
  EXPECT_NEAR(distance(exact), 1, 1e-12) << "nothing was rounded";
  EXPECT_NEAR(distance(exact + a), b.square().mean().sqrt().item<double>() / own, 1e-12) << "one side was rounded";
  EXPECT_NEAR(distance(exact - a - b), 2, 1e-12) << "errors as large as the scheme's, and others";
}

TEST(Compare, ASchemeWithoutErrorsHasNoDistanceBeyondRounding) {
  const at::Tensor exact = normal({4}).to(at::kDouble);  // as of one product of the largest numbers: 127 and 127
  ComparisonRule rule;
  rule.kind = ComparisonRule::Kind::quantization;
  const Expected wanted{exact.to(at::kFloat), exact, exact};
  EXPECT_LT(*compare_output(exact.to(at::kFloat), wanted, rule).scheme_distance, 0.5);
  const Expected zero{at::zeros({4}), at::zeros({4}, at::kDouble), at::zeros({4}, at::kDouble)};
  EXPECT_EQ(*compare_output(at::zeros({4}), zero, rule).scheme_distance, 0);
  EXPECT_FALSE(compare_output(at::full({4}, NAN), wanted, rule).scheme_distance.has_value());
}

TEST(Compare, OneCaseOfManyElementsTellsOtherErrorsFromTheSchemes) {
  ComparisonRule rule;
  rule.kind = ComparisonRule::Kind::quantization;
  const auto judged = [&](std::int64_t size) {
    const at::Tensor exact = normal({size, size}).to(at::kDouble);
    const at::Tensor a = at::randn({size, size}).to(at::kDouble) * 0.02;
    const at::Tensor b = at::randn({size, size}).to(at::kDouble) * 0.02;
    return compare_output(exact + a, {exact, exact, exact + a + b}, rule).failure_class;
  };
  EXPECT_EQ(judged(256), "not_quantized");
  EXPECT_EQ(judged(255), "ok") << "left to all cases together";
}

TEST(Compare, PoolsTheDistancesOfAllCases) {
  std::vector<CaseVerdict> cases(3);
  EXPECT_FALSE(pooled_scheme_distance(cases).has_value());
  cases[0].scheme_distance = 0.3;
  cases[2].scheme_distance = 0.4;
  EXPECT_NEAR(*pooled_scheme_distance(cases), std::sqrt((0.09 + 0.16) / 2), 1e-12);
}

std::string mismatch(const at::Tensor& got, const at::Tensor& wanted, double reduction = 1) {
  return class_of_mismatch(got, wanted, at::isclose(got, wanted, 1e-5, 1e-5).logical_not(), reduction);
}

TEST(MismatchClass, FollowsTheGeometry) {
  const at::Tensor x = normal({16, 64});
  at::Tensor tail = x.clone();
  tail.slice(1, 48, 64).zero_();
  EXPECT_EQ(mismatch(tail, x), "tail");

  const at::Tensor square = normal({32, 32});
  EXPECT_EQ(mismatch(square.t().contiguous(), square), "layout");
  EXPECT_EQ(mismatch(x * 2, x), "scale_or_cast");
  EXPECT_EQ(mismatch(x * 0.5, x, 64), "incomplete_reduction");
  EXPECT_EQ(mismatch(x.select(0, 0).expand({16, 64}).contiguous(), x), "broadcast");

  at::Tensor part = x.clone().flatten();
  part.slice(0, 128, 256).fill_(NAN);
  EXPECT_EQ(mismatch(part.view({16, 64}), x), "partial_coverage");

  at::Tensor broken = x.clone();
  broken[3][5] = HUGE_VAL;
  EXPECT_EQ(mismatch(broken, x), "overflow_or_nan");
  EXPECT_EQ(mismatch(at::zeros_like(x), x), "other");
}

TEST(TensorLayout, HostileDescriptionsAreRefused) {
  const auto describe = [](auto shape, auto strides, std::size_t offset) {
    return nlohmann::json{{"dtype", "float32"}, {"shape", shape}, {"strides", strides}, {"offset", offset}};
  };
  using Sizes = std::vector<std::int64_t>;
  EXPECT_EQ(layout_from_json(describe(Sizes{4, 4}, Sizes{4, 1}, 0), 64).span(), 16);
  EXPECT_THROW(layout_from_json(describe(Sizes{4, 4}, Sizes{4, 1}, 4), 64), std::invalid_argument);
  EXPECT_THROW(layout_from_json(describe(Sizes{-1}, Sizes{1}, 0), 64), std::invalid_argument);
  EXPECT_THROW(layout_from_json(describe(Sizes{4}, Sizes{-1}, 0), 64), std::invalid_argument);
  EXPECT_THROW(layout_from_json(describe(Sizes{4}, Sizes{std::int64_t{1} << 62}, 0), 64), std::invalid_argument);
  EXPECT_THROW(layout_from_json(describe(Sizes{std::int64_t{1} << 62, 8}, Sizes{0, 0}, 0), 64), std::invalid_argument);
  EXPECT_THROW(layout_from_json(nlohmann::json{{"dtype", 1}}, 64), std::invalid_argument);
}

}  // namespace
}  // namespace anneal::evaluator
