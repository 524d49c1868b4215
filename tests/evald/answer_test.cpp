#include "evaluator/daemon/answer.h"

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

}  // namespace
}  // namespace anneal::evaluator
