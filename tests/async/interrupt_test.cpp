#include "async/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <boost/asio/io_context.hpp>
#include <cstdlib>

namespace anneal {
namespace {

TEST(Interrupt, FirstSignalAsksOnce) {
  boost::asio::io_context io;
  int requests = 0;
  Interrupt interrupt(io.get_executor(), [&] { ++requests; });
  EXPECT_FALSE(interrupt.requested());
  ::raise(SIGINT);
  io.run();
  EXPECT_TRUE(interrupt.requested());
  EXPECT_EQ(requests, 1);
}

TEST(InterruptDeathTest, SecondSignalLeavesWithCodeFourEvenFromAHangingLoop) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        boost::asio::io_context io;
        Interrupt interrupt(io.get_executor(), [] { ::raise(SIGTERM); });
        ::raise(SIGINT);
        io.run();
        std::exit(0);
      },
      ::testing::ExitedWithCode(4), "");
}

TEST(Interrupt, LetsTheLoopEndWhenStopped) {
  boost::asio::io_context io;
  Interrupt interrupt(io.get_executor(), [] {});
  interrupt.stop();
  EXPECT_GE(io.run(), 0u);
  EXPECT_FALSE(interrupt.requested());
}

}  // namespace
}  // namespace anneal
