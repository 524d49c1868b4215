// The body of a chat completion, and of an error.
#include "llm/chat.h"

#include "tests/fuzz/fuzz.h"

using namespace anneal;

namespace {

void require_count(const std::optional<std::int64_t>& count) {
  fuzz::require(!count || (*count >= 0 && *count <= 1'000'000'000'000), "a token count from 0 to 10^12");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body = fuzz::view_of(data, size);
  const auto reply = llm::parse_chat_reply(body);
  if (reply) {
    fuzz::require(reply->ok && reply->error.empty(), "a reply is ok");
    for (const auto& count : {reply->usage.prompt_tokens, reply->usage.completion_tokens, reply->usage.reasoning_tokens,
                              reply->usage.cached_tokens}) {
      require_count(count);
    }
  } else {
    fuzz::require(!reply.error().message.empty(), "a failure says why");
    fuzz::require(reply.error().status >= 0 && reply.error().status <= 999, "a status of at most three digits");
  }
  const std::string message = llm::server_message(body);
  fuzz::require(!message.empty() && message.size() <= 303, "a server's message is at most 300 bytes and an ellipsis");
  fuzz::require(message.find('\n') == std::string::npos, "a server's message is one line");
  const std::string key = "sk-secret";
  fuzz::require(llm::without_key(std::string(body), key).find(key) == std::string::npos, "no key is left in a body");
  return 0;
}
