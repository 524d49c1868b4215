#include "evaluator/daemon_message.h"

#include <gmock/gmock.h>

#include "evaluator/protocol.h"

namespace anneal::evaluator {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json hello(const json& jobs) {
  return {{"type", "hello"}, {"protocol", protocol_version}, {"facts", {{"device", "cpu"}, {"jobs", jobs}}}};
}

TEST(DaemonMessage, HelloTellsTheFacts) {
  const auto facts = facts_of_hello(hello(3));
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(facts->device, "cpu");
  EXPECT_EQ(facts->jobs, 3);
  EXPECT_EQ(facts_of_hello(hello(4'294'967'298))->jobs, 1024) << "wrapped around it would be 2";
}

TEST(DaemonMessage, FactsThatAreNoNumbersAreMalformed) {
  for (const json& jobs : {json(1e300), json("4"), json(nullptr), json(18446744073709551615u)}) {
    const auto facts = facts_of_hello(hello(jobs));
    ASSERT_FALSE(facts) << jobs;
    EXPECT_THAT(facts.error().message, HasSubstr("malformed facts"));
  }
}

TEST(DaemonMessage, AFrameIsAnObjectThatIsNotNestedWithoutEnd) {
  EXPECT_TRUE(message_of_frame(R"({"text": "[[[[[[[[[[[[[[[[[[[["})")) << "brackets in a string are text";
  EXPECT_FALSE(message_of_frame("[]"));
  EXPECT_FALSE(message_of_frame("{"));
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_FALSE(message_of_frame(R"({"type": "hello", "protocol": )" + deep + "}"));
}

TEST(DaemonMessage, KnowsTheProtocolsMessagesOnly) {
  EXPECT_EQ(head_of({{"type", "verdict"}, {"id", 7u}})->id, 7u);
  EXPECT_EQ(head_of({{"type", "fatal"}})->type, "fatal");
  EXPECT_FALSE(head_of({{"type", "verdict"}}));
  EXPECT_FALSE(head_of({{"type", "verdict"}, {"id", -1}}));
  EXPECT_FALSE(head_of({{"type", "hello"}, {"id", 1u}}));
  EXPECT_FALSE(head_of({{"type", 3}}));
}

}  // namespace
}  // namespace anneal::evaluator
