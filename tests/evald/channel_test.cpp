#include "evaluator/daemon/channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <system_error>

namespace anneal::evaluator {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

TEST(Channel, SendingToAPeerThatNeverReadsEndsAtTheDeadline) {
  auto [mine, theirs] = Channel::pair();
  const nlohmann::json message = {{"text", std::string(100'000, 'x')}};
  Channel::Status status = Channel::Status::ok;
  for (int i = 0; i < 1000 && status == Channel::Status::ok; ++i) {
    status = mine.send(message, steady_clock::now() + milliseconds(50));
  }
  EXPECT_EQ(status, Channel::Status::timeout);
}

TEST(Channel, SendingToAPeerThatIsGoneSaysSo) {
  auto [mine, theirs] = Channel::pair();
  theirs = Channel();
  EXPECT_EQ(mine.send({{"a", 1}}, no_deadline), Channel::Status::closed);
}

TEST(Channel, ADescriptorOfOurOwnThatIsNoSocketIsNotThePeersDoing) {
  Channel broken(UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC)));
  nlohmann::json message;
  EXPECT_THROW(broken.send({{"a", 1}}, no_deadline), std::system_error);
  EXPECT_THROW(broken.receive(message, no_deadline), std::system_error);
}

TEST(Channel, KnowsOfAMessageThatNobodyAskedFor) {
  auto [mine, theirs] = Channel::pair();
  EXPECT_FALSE(mine.has_unread());
  ASSERT_EQ(theirs.send({{"event_ns", 1}}, no_deadline), Channel::Status::ok);
  EXPECT_TRUE(mine.has_unread());
  nlohmann::json message;
  ASSERT_EQ(mine.receive(message, no_deadline), Channel::Status::ok);
  EXPECT_EQ(message["event_ns"], 1);
  EXPECT_FALSE(mine.has_unread());
  theirs = Channel();
  EXPECT_FALSE(mine.has_unread()) << "the end of the stream is no message";
}

TEST(Channel, AMessageNestedWithoutEndIsMalformed) {
  auto [mine, theirs] = Channel::pair();
  const std::string deep = R"({"outputs": )" + std::string(60'000, '[') + std::string(60'000, ']') + "}";
  ASSERT_EQ(::send(theirs.fd(), deep.data(), deep.size(), 0), static_cast<ssize_t>(deep.size()));
  nlohmann::json message;
  EXPECT_EQ(mine.receive(message, no_deadline), Channel::Status::malformed);
  ASSERT_EQ(theirs.send({{"text", "[[[[[[[[[[[[[[[[[[[[\"["}}, no_deadline), Channel::Status::ok);
  EXPECT_EQ(mine.receive(message, no_deadline), Channel::Status::ok) << "brackets in a string are text";
}

TEST(Channel, AMessageThatIsNoObjectIsMalformed) {
  auto [mine, theirs] = Channel::pair();
  ASSERT_EQ(theirs.send(nlohmann::json::array({1}), no_deadline), Channel::Status::ok);
  nlohmann::json message;
  EXPECT_EQ(mine.receive(message, no_deadline), Channel::Status::malformed);
}

}  // namespace
}  // namespace anneal::evaluator
