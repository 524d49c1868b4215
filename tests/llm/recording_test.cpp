#include "llm/recording.h"

#include <gtest/gtest.h>

#include "async/sha256.h"
#include "tests/temporary_folder.h"

namespace anneal::llm {
namespace {

using test::TemporaryFolder;

const char* const one =
    R"({"task": "relu", "method": "geak", "role": "generator", "iteration": 1, "slot": 0, "sample": 0, )"
    R"("must_contain": ["call failed"], "reply": {"text": "code", "finish_reason": "stop", )"
    R"("usage": {"prompt_tokens": 9, "completion_tokens": 4}}})";

CallPlace place_of_one() {
  CallPlace place;
  place.task = "relu";
  place.method = "geak";
  place.role = "generator";
  place.iteration = 1;
  return place;
}

TEST(Recording, AnswersByPlace) {
  const TemporaryFolder folder;
  const auto file = folder.write("recording.jsonl", std::string(one) + "\n\n");
  const auto recording = Recording::load(file);
  ASSERT_TRUE(recording) << recording.error().message;
  bool changed = true;
  const auto reply = recording->reply_to(place_of_one(), {{"user", "it says: call failed: timeout"}}, &changed);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_TRUE(reply->ok);
  EXPECT_EQ(reply->text, "code");
  EXPECT_EQ(reply->usage.prompt_tokens, 9);
  EXPECT_FALSE(changed);
}

TEST(Recording, SaysWhatWasNeverRecorded) {
  const TemporaryFolder folder;
  const auto file = folder.write("recording.jsonl", one);
  const auto recording = Recording::load(file);
  ASSERT_TRUE(recording);
  CallPlace place = place_of_one();
  place.slot = 2;
  const auto reply = recording->reply_to(place, {{"user", "call failed"}}, nullptr);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().kind, ErrorKind::internal);
  EXPECT_NE(reply.error().message.find(file.string()), std::string::npos);
  EXPECT_NE(reply.error().message.find("task relu, method geak, role generator, iteration 1, slot 2, sample 0"),
            std::string::npos);
}

TEST(Recording, RefusesAPromptWithoutTheRequiredText) {
  const TemporaryFolder folder;
  const auto file = folder.write("recording.jsonl", std::string("\n") + one);
  const auto recording = Recording::load(file);
  ASSERT_TRUE(recording);
  const auto reply = recording->reply_to(place_of_one(), {{"user", "write relu"}}, nullptr);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().kind, ErrorKind::internal);
  EXPECT_NE(reply.error().message.find(file.string() + ":2: "), std::string::npos);
  EXPECT_NE(reply.error().message.find("\"call failed\""), std::string::npos);
}

TEST(Recording, NoticesAnotherPrompt) {
  const std::vector<Message> messages = {{"system", "a"}, {"user", "b"}};
  const std::string line = R"({"task": "t", "method": "m", "role": "generator", "iteration": 0, "slot": 0, )"
                           R"("prompt_sha256": ")" +
                           sha256_hex("a\n\nb") + R"(", "reply": {"text": "x"}})";
  const TemporaryFolder folder;
  const auto file = folder.write("recording.jsonl", line);
  const auto recording = Recording::load(file);
  ASSERT_TRUE(recording) << recording.error().message;
  CallPlace place;
  place.task = "t";
  place.method = "m";
  place.role = "generator";
  bool changed = true;
  ASSERT_TRUE(recording->reply_to(place, messages, &changed));
  EXPECT_FALSE(changed);
  ASSERT_TRUE(recording->reply_to(place, {{"user", "c"}}, &changed));
  EXPECT_TRUE(changed);
}

TEST(Recording, NamesFileAndLineOfEveryMistake) {
  const struct {
    std::string text;
    std::string message;
  } cases[] = {
      {std::string(one) + "\n" + one, ":2: a second reply for task relu"},
      {std::string(one) + "\n{\"task\":", ":2: not JSON"},
      {R"({"task": "t"})", ":1: \"method\" is missing"},
      {R"({"task": 3})", ":1: \"task\" must be a string"},
      {R"({"tusk": "t"})", ":1: unknown key \"tusk\""},
      {R"([])", ":1: the line must be an object"},
      {"1e400", ":1: a number out of range"},
      {R"({"task": "t", "method": "m", "role": "r", "iteration": -1, "slot": 0, "reply": {"text": ""}})",
       "\"iteration\" must be an integer"},
      {R"({"task": "t", "method": "m", "role": "r", "iteration": 0, "slot": 0})", "\"reply\" is missing"},
      {R"({"task": "t", "method": "m", "role": "r", "iteration": 0, "slot": 0, "reply": {}})", "\"text\" is missing"},
      {R"({"task": "t", "method": "m", "role": "r", "iteration": 0, "slot": 0, "must_contain": "x", "reply": {}})",
       "\"must_contain\" must be a list"},
  };
  for (const auto& c : cases) {
    const TemporaryFolder folder;
    const auto file = folder.write("recording.jsonl", c.text);
    const auto recording = Recording::load(file);
    ASSERT_FALSE(recording) << c.text;
    EXPECT_EQ(recording.error().kind, ErrorKind::bad_input);
    EXPECT_EQ(recording.error().message.find(file.string()), 0u);
    EXPECT_NE(recording.error().message.find(c.message), std::string::npos) << recording.error().message;
  }
}

TEST(Recording, SaysMissingWhenTheFileIsNotThere) {
  const auto recording = Recording::load("/nonexistent/quickstart.jsonl");
  ASSERT_FALSE(recording);
  EXPECT_EQ(recording.error().kind, ErrorKind::missing);
}

}  // namespace
}  // namespace anneal::llm
