#include "evaluator/daemon/tensors.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace anneal::evaluator {
namespace {

using nlohmann::json;

json layout(const json& shape, const json& strides, const json& offset) {
  return {{"dtype", "float32"}, {"shape", shape}, {"strides", strides}, {"offset", offset}};
}

TEST(TensorLayout, IsReadWithinTheArena) {
  const TensorLayout read = layout_from_json(layout({4, 5}, {5, 1}, 16), 96);
  EXPECT_EQ(read.span(), 20);
  EXPECT_EQ(read.offset, 16u);
  EXPECT_THROW(layout_from_json(layout({4, 5}, {5, 1}, 16), 95), std::invalid_argument);
}

TEST(TensorLayout, RefusesNumbersThatAreNoSizes) {
  for (const json& number : {json(1e300), json(-1), json(1.5), json(18446744073709551615u), json("4"), json(nullptr)}) {
    EXPECT_THROW(layout_from_json(layout({number}, {1}, 0), 1 << 20), std::invalid_argument) << number;
    EXPECT_THROW(layout_from_json(layout({1}, {number}, 0), 1 << 20), std::invalid_argument) << number;
    EXPECT_THROW(layout_from_json(layout({1}, {1}, number), 1 << 20), std::invalid_argument) << number;
  }
  EXPECT_THROW(layout_from_json(layout(3, {1}, 0), 1 << 20), std::invalid_argument);
}

}  // namespace
}  // namespace anneal::evaluator
