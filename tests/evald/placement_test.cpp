#include "evaluator/daemon/placement.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace anneal::evaluator {
namespace {

Argument tensor(at::Tensor value) {
  Argument argument;
  argument.tensor = std::move(value);
  return argument;
}

TEST(Placement, KeepsHowFarATensorIsOffSixteenBytes) {
  const at::Tensor whole = at::arange(9, at::kFloat);
  std::vector<Argument> arguments{tensor(whole), tensor(whole.slice(0, 1)), tensor(whole.slice(0, 2))};
  const auto arena = Arena::create(-1, room_for(arguments));
  for (std::size_t shift : {0, 3, 15}) {
    const PlacedArguments placed = place(*arena, arguments, 0, shift, -1);
    EXPECT_EQ(placed.layouts[0].offset % 16, 0u);
    EXPECT_EQ(placed.layouts[1].offset % 16, 4u);
    EXPECT_EQ(placed.layouts[2].offset % 16, 8u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(placed.in(*arena, i, -1), *arguments[i].tensor));
  }
}

}  // namespace
}  // namespace anneal::evaluator
