// The wire form of OpenAI's chat completions (POST {base_url}/chat/completions, without streaming), which DeepSeek,
// vLLM, OpenRouter and others speak too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "async/result.h"
#include "llm/exchange.h"

namespace anneal::llm {

// The JSON body. `model` is the provider's model string. Bytes that are not UTF-8 become U+FFFD.
std::string chat_body(const std::vector<Message>& messages, const Sampling& sampling, const std::string& model);

struct ChatFailure {
  std::string message;
  // The body is nothing at all, or JSON that stops in the middle or is broken: a cut connection can look like success
  // (HTTP/2), and a gateway may append what it has to say, so it is worth another try. Text that is not JSON at all is
  // not, nor characters that are none: most often the model wrote them, and each try costs its tokens.
  bool cut_off = false;
  int status = 0;  // that the body itself states beside HTTP 200 (gateways do), else 0
};

// Text, reasoning, finish reason, model and usage of a complete response. Missing usage and `content` are tolerated; a
// missing or empty `choices`, content that is neither text nor a list of parts, JSON of another shape, text that is not
// UTF-8 or holds half of a surrogate pair, and an {"error": …} object are failures.
tl::expected<Reply, ChatFailure> parse_chat_reply(std::string_view body);

// `text` as one line without control characters, at most `most` bytes and an ellipsis.
std::string one_line(std::string_view text, std::size_t most);

// What an error body says, for a person: error.message, message or detail where it is JSON, else its beginning. One
// line without control characters, at most 300 bytes.
std::string server_message(std::string_view body);

// `text` with every occurrence of `key` replaced. Keys of fewer than 8 characters are placeholders of local servers,
// not secrets, and are left.
std::string without_key(std::string text, const std::string& key);
// The same of a body as it came, also where it spells the key with JSON's escapes (of ASCII: a key is sent in a
// header).
std::string without_escaped_key(std::string body, const std::string& key);

}  // namespace anneal::llm
