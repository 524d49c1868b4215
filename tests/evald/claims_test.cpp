#include "evaluator/daemon/claims.h"

#include <gtest/gtest.h>

#include <limits>

namespace anneal::evaluator {
namespace {

TEST(HostCompute, AQuarterInOneOperatorIsTorchComputing) {
  EXPECT_EQ(host_compute({{"mul", 250}}, 1000, {}), "mul");
  EXPECT_EQ(host_compute({{"mul", 249}}, 1000, {}), "");
}

TEST(HostCompute, SpreadOverManyOperatorsItIsTheSame) {
  EXPECT_EQ(host_compute({{"mul", 100}, {"addcmul", 150}}, 1000, {}), "addcmul and 1 other operator");
  EXPECT_EQ(host_compute({{"a", 100}, {"b", 90}, {"other operators", 60}}, 1000, {}), "a and 2 other operators");
}

TEST(HostCompute, WhatTheTaskAllowsIsNotCounted) {
  EXPECT_EQ(host_compute({{"linalg_qr", 5000}, {"mul", 249}}, 1000, {"linalg_qr"}), "");
}

TEST(HostCompute, SmallCallsTellNothing) {
  EXPECT_EQ(host_compute({{"mul", 63}}, 63, {}), "");
  EXPECT_EQ(host_compute({{"mul", 16}}, 64, {}), "mul");
}

TEST(HostCompute, ClaimedCountsDoNotOverflow) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(host_compute({{"a", huge}, {"b", huge}}, 1000, {}), "a and 1 other operator");
  EXPECT_EQ(host_compute({{"a", -huge}, {"b", 250}}, 1000, {}), "b and 1 other operator");
}

TEST(HostCompute, RefusesWhatIsNoCount) {
  for (const nlohmann::json& count : {nlohmann::json(1e300), nlohmann::json("4096"), nlohmann::json(nullptr)}) {
    EXPECT_THROW(host_compute({{"mul", count}}, 1000, {}), nlohmann::json::exception) << count;
  }
}

TEST(LaunchClaims, AreReadOrRefused) {
  const nlohmann::json kernels = {{{"name", "k"}, {"registers", 32}, {"spills", nullptr}, {"shared_bytes", 0}}};
  const nlohmann::json dots = {{"integer", true}, {"floating", "f"}, {"integer_products", 4096}};
  const LaunchClaims claims = launch_claims({{"launches", 2}, {"kernels", kernels}, {"dots", dots}});
  EXPECT_EQ(claims.launches, 2);
  EXPECT_TRUE(claims.dots.integer);
  EXPECT_EQ(claims.dots.floating, "f");
  EXPECT_EQ(claims.dots.integer_products, 4096.0);
  ASSERT_EQ(claims.kernels.size(), 1u);
  EXPECT_EQ(claims.kernels[0].registers, 32);
  EXPECT_FALSE(claims.kernels[0].spills.has_value());
  for (const nlohmann::json& launches : {nlohmann::json(1e300), nlohmann::json(4294967297), nlohmann::json("2")}) {
    EXPECT_THROW(launch_claims({{"launches", launches}, {"kernels", kernels}, {"dots", dots}}),
                 nlohmann::json::exception)
        << launches;
  }
  EXPECT_THROW(launch_claims({{"kernels", kernels}}), nlohmann::json::exception);
  EXPECT_THROW(launch_claims({{"kernels", {3}}, {"dots", dots}}), nlohmann::json::exception);
  EXPECT_THROW(launch_claims(nullptr), nlohmann::json::exception);
}

}  // namespace
}  // namespace anneal::evaluator
