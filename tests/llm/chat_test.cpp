#include "llm/chat.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace anneal::llm {
namespace {

TEST(Chat, WritesMessagesAndOnlyTheSamplingThatWasAsked) {
  Sampling sampling;
  sampling.temperature = 0.5;
  const std::vector<Message> messages = {{"system", "Be brief."}, {"user", "gelu \xff"}};
  const auto body = nlohmann::json::parse(chat_body(messages, sampling, "deepseek-chat"));
  EXPECT_EQ(body["model"], "deepseek-chat");
  EXPECT_EQ(body["messages"][0]["role"], "system");
  EXPECT_EQ(body["messages"][1]["content"], "gelu \xef\xbf\xbd");
  EXPECT_EQ(body["temperature"], 0.5);
  EXPECT_EQ(body["stream"], false);
  EXPECT_FALSE(body.contains("top_p"));
  EXPECT_FALSE(body.contains("seed"));
}

TEST(Chat, ReadsTextReasoningAndUsage) {
  const auto reply = parse_chat_reply(R"({"model": "deepseek-reasoner-0528", "choices": [{"finish_reason": "length",
    "message": {"role": "assistant", "content": "code", "reasoning_content": "hmm"}}],
    "usage": {"prompt_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5},
              "completion_tokens_details": {"reasoning_tokens": 3}}})");
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_TRUE(reply->ok);
  EXPECT_EQ(reply->text, "code");
  EXPECT_EQ(reply->reasoning, "hmm");
  EXPECT_EQ(reply->finish_reason, "length");
  EXPECT_EQ(reply->served_model, "deepseek-reasoner-0528");
  EXPECT_EQ(reply->usage.prompt_tokens, 11);
  EXPECT_EQ(reply->usage.completion_tokens, 7);
  EXPECT_EQ(reply->usage.cached_tokens, 5);
  EXPECT_EQ(reply->usage.reasoning_tokens, 3);
}

TEST(Chat, ToleratesNullsAndMissingUsage) {
  const auto reply = parse_chat_reply(R"({"error": null, "usage": null, "choices": [{"finish_reason": null,
    "message": {"content": null, "refusal": "I cannot help with that."}}]})");
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->text, "I cannot help with that.");
  EXPECT_EQ(reply->finish_reason, "");
  EXPECT_FALSE(reply->usage.prompt_tokens.has_value());
}

TEST(Chat, ATokenCountThatCannotBeOneIsMissing) {
  for (const char* count : {"-1", "-9223372036854775808", "1000000000001", "9223372036854775808",
                            "18446744073709551615", "1e30", "12.5", "1e999", "\"12\"", "true", "[1]", "null"}) {
    const auto reply = parse_chat_reply(
        std::string(R"({"choices": [{"message": {"content": "a"}}], "usage": {"prompt_tokens": )") + count +
        R"(, "completion_tokens": 7, "completion_tokens_details": {"reasoning_tokens": )" + count + "}}}");
    if (!reply) {
      EXPECT_STREQ(count, "1e999") << reply.error().message;  // no JSON at all
      continue;
    }
    EXPECT_FALSE(reply->usage.prompt_tokens.has_value()) << count;
    EXPECT_FALSE(reply->usage.reasoning_tokens.has_value()) << count;
    EXPECT_EQ(reply->usage.completion_tokens, 7) << count;
  }
  const auto most = parse_chat_reply(
      R"({"choices": [{"message": {"content": "a"}}], "usage": {"prompt_tokens": 1000000000000, "completion_tokens": 0}})");
  ASSERT_TRUE(most);
  EXPECT_EQ(most->usage.prompt_tokens, 1'000'000'000'000);
  EXPECT_EQ(most->usage.completion_tokens, 0);
}

TEST(Chat, ReadsContentInParts) {
  const auto reply = parse_chat_reply(
      R"({"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}}]})");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->text, "ab");
}

TEST(Chat, RefusesContentThatIsNoText) {
  for (const char* content : {"5", "true", R"({"text": "a"})", "[1]", R"(["a"])", R"([{"type": "text", "text": 5}])"}) {
    const auto reply = parse_chat_reply(std::string(R"({"choices": [{"message": {"content": )") + content + "}}]}");
    ASSERT_FALSE(reply) << content;
    EXPECT_FALSE(reply.error().cut_off) << content;
    EXPECT_TRUE(reply.error().message.starts_with("the response's content is neither text nor a list of texts"))
        << reply.error().message;
  }
  const auto pictures = parse_chat_reply(R"({"choices": [{"message": {"content": [{"type": "image_url"}]}}]})");
  ASSERT_TRUE(pictures);
  EXPECT_EQ(pictures->text, "");
}

TEST(Chat, TellsCutBodiesFromCharactersThatAreNone) {
  const std::string before = R"({"choices": [{"message": {"content": ")";
  const std::string after = R"("}}]})";
  const auto surrogate = parse_chat_reply(before + R"(\ud800)" + after);
  ASSERT_FALSE(surrogate);
  EXPECT_FALSE(surrogate.error().cut_off);
  EXPECT_EQ(surrogate.error().message,
            R"(the response holds half of a surrogate pair, \uD800 to \uDFFF, which is no character (at byte 45))");
  EXPECT_FALSE(parse_chat_reply(before + "\xff" + after).error().cut_off);
  EXPECT_TRUE(parse_chat_reply(before + "\n<html>502 Bad Gateway</html>").error().cut_off);
  EXPECT_TRUE(parse_chat_reply(before + after + "}").error().cut_off);
  EXPECT_EQ(parse_chat_reply(R"({"choices": 1e999})").error().message, "the response holds a number out of range");
  // Wherever it stops, also inside an escape, a character or a pair of surrogates.
  const std::string whole = before +
                            R"(UTF-8 \u00e4 \ud83d\ude00 )"
                            "\xf0\x9f\x98\x80" +
                            after;
  ASSERT_TRUE(parse_chat_reply(whole));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto cut = parse_chat_reply(whole.substr(0, size));
    ASSERT_FALSE(cut) << size;
    EXPECT_TRUE(cut.error().cut_off) << whole.substr(0, size);
  }
}

TEST(Chat, TellsACutBodyFromAWrongOne) {
  EXPECT_TRUE(parse_chat_reply("").error().cut_off);
  EXPECT_TRUE(parse_chat_reply(R"({"choices": [{"message": {"cont)").error().cut_off);
  const auto html = parse_chat_reply("<html>\nproxy login</html>");
  ASSERT_FALSE(html);
  EXPECT_FALSE(html.error().cut_off);
  EXPECT_EQ(html.error().message, "the response is not JSON: <html> proxy login</html>");
  const auto bytes = parse_chat_reply("{\"choices\": [{\"message\": {\"content\": \"a\xff\"}}]}");
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().message, "the response is not UTF-8 (at byte 40)");
  EXPECT_EQ(parse_chat_reply(R"({"choices": []})").error().message, R"(the response has no choices: {"choices": []})");
  EXPECT_FALSE(parse_chat_reply("[1]").has_value());
  EXPECT_FALSE(parse_chat_reply(R"({"choices": [3]})").has_value());
  EXPECT_FALSE(parse_chat_reply(R"({"choices": [{"message": "x"}]})").has_value());
}

TEST(Chat, ReadsAnErrorInsideA200) {
  const auto reply = parse_chat_reply(R"({"error": {"message": "upstream is overloaded", "code": 529}})");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().message, "the server reports: upstream is overloaded");
  EXPECT_EQ(reply.error().status, 529);
}

TEST(Chat, ShowsServerMessagesOnOneCleanLine) {
  EXPECT_EQ(server_message(R"({"error": {"message": "no\u001b[31m such\n model"}})"), "no [31m such model");
  EXPECT_EQ(server_message(R"({"detail": "Not Found"})"), "Not Found");
  EXPECT_EQ(server_message(R"({"error": "bad"})"), "bad");
  EXPECT_EQ(server_message(""), "(no message)");
  EXPECT_LT(server_message(std::string(5000, 'x')).size(), 310u);
}

TEST(Chat, TakesKeysOutOfWhatServersEcho) {
  EXPECT_EQ(without_key("bad key sk-123456789, sk-123456789", "sk-123456789"), "bad key [key], [key]");
  EXPECT_EQ(without_key("EMPTY", "EMPTY"), "EMPTY");
  std::string echoes;  // a body of nothing else takes no minutes
  for (int i = 0; i < 1'000'000; ++i) echoes += "sk-123456789";
  EXPECT_EQ(without_key(echoes + "!", "sk-123456789").size(), 5'000'001u);
}

TEST(WithoutKey, FindsItAsJsonEscapesIt) {
  const std::string key = "sk-12/456789";
  EXPECT_EQ(without_escaped_key(R"({"a": "x\u0073k-12\/456789y"})", key), R"({"a": "x[key]y"})");
  EXPECT_EQ(without_escaped_key(R"(cut \u0073\u006b-12/45678\u0039 off \u00)", key), R"(cut [key] off \u00)");
  EXPECT_EQ(without_escaped_key(R"(\\u0073k-12/456789 sk-12/456789)", key), R"(\\u0073k-12/456789 [key])");
  EXPECT_EQ(without_escaped_key("\\", key), "\\");
  // A message of 300 bytes that would end within the key.
  const std::string body = R"({"error": ")" + std::string(295, 'x') + R"(\u0073k-12/456789"})";
  EXPECT_EQ(server_message(without_escaped_key(body, key)).find("73k"), std::string::npos);
}

TEST(RequestHash, DependsOnAllThatDecidesTheAnswerAndNothingElse) {
  Request request;
  request.id = "a";
  request.messages = {{"user", "hello"}};
  const std::string hash = request_sha256(request, "m1");
  EXPECT_EQ(hash.size(), 64u);
  Request other = request;
  other.id = "b";
  other.place.iteration = 3;
  EXPECT_EQ(request_sha256(other, "m1"), hash);
  EXPECT_NE(request_sha256(request, "m2"), hash);
  other.sampling.temperature = 0;
  EXPECT_NE(request_sha256(other, "m1"), hash);
  other = request;
  other.messages[0].role = "system";
  EXPECT_NE(request_sha256(other, "m1"), hash);
}

}  // namespace
}  // namespace anneal::llm
