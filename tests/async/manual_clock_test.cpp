#include "async/manual_clock.h"

#include <gtest/gtest.h>

#include "async/sha256.h"
#include "tests/async/run_on_loop.h"

namespace anneal {
namespace {

using namespace std::chrono_literals;

TEST(ManualClock, SleepsWithoutWaiting) {
  ManualClock clock;
  const auto start = clock.now();
  run_on_loop(clock.sleep_for(1h));
  EXPECT_EQ(clock.now() - start, 1h);
  ASSERT_EQ(clock.slept().size(), 1u);
  EXPECT_EQ(clock.slept()[0], 1h);
}

TEST(Sha256, MatchesThePublishedExamples) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace anneal
