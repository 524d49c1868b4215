#include "llm/chat.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace anneal::llm {

using nlohmann::json;

namespace {

constexpr std::uint64_t most_tokens = 1'000'000'000'000;

// The string at `key`, empty when absent, null or of another type.
std::string string_at(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return {};
  return found->get<std::string>();
}

// A whole number from 0 to 10^12; what a server says beside that is as good as nothing.
std::optional<std::int64_t> count_at(const json& object, const char* key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  // An unsigned value beyond 2^63 would come out negative.
  if (found->is_number_unsigned() && found->get<std::uint64_t>() > most_tokens) return std::nullopt;
  const auto count = found->get<std::int64_t>();
  if (count < 0) return std::nullopt;
  return count;
}

const json& object_at(const json& object, const char* key) {
  static const json empty = json::object();
  if (!object.is_object()) return empty;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_object()) return empty;
  return *found;
}

// The text of `content`: a string, null (no text), or a list of parts, of which those with a `text` count (others hold
// pictures or sound). Nothing for anything else: no answer of a model can be told from it.
std::optional<std::string> content_text(const json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (content.is_null()) return std::string();
  if (!content.is_array()) return std::nullopt;
  std::string text;
  for (const json& part : content) {
    if (!part.is_object()) return std::nullopt;
    const auto found = part.find("text");
    if (found == part.end()) continue;
    if (!found->is_string()) return std::nullopt;
    text += found->get_ref<const std::string&>();
  }
  return text;
}

// What is wrong with a body that is no JSON.
struct ParseTrouble {
  std::string what;      // "" where it is plain bad syntax
  bool cut_off = false;  // the body ended before its JSON did
};

ParseTrouble trouble_of(std::string_view body) {
  try {
    [[maybe_unused]] const json parsed = json::parse(body);  // g++ takes a cast to void for an unused result
  } catch (const json::parse_error& error) {
    // The parser stopped behind the last byte: had more come, it might have been well formed.
    if (error.byte > body.size()) return {"", true};
    // The message quotes the text it stopped in, which may say anything.
    const std::string_view message = std::string_view(error.what()).substr(0, 200);
    const std::string_view reason = message.substr(0, message.find("; last read"));
    const std::string at = " (at byte " + std::to_string(error.byte) + ")";
    if (reason.find("UTF-8") != std::string_view::npos) return {"is not UTF-8" + at, false};
    if (reason.find("surrogate") != std::string_view::npos) {
      return {"holds half of a surrogate pair, \\uD800 to \\uDFFF, which is no character" + at, false};
    }
  } catch (const json::out_of_range&) {
    return {"holds a number out of range", false};
  } catch (const json::exception&) {
    return {};
  }
  return {};
}

// The character that stands at `at` in a JSON string, and how many bytes it takes there. NUL for one that is not ASCII.
std::pair<char, std::size_t> escaped_at(std::string_view text, std::size_t at) {
  if (text[at] != '\\' || at + 1 == text.size()) return {text[at], 1};
  if (text[at + 1] != 'u') return {text[at + 1], 2};
  unsigned code = 0;
  const std::string_view digits = text.substr(at + 2, 4);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (error != std::errc() || end != digits.data() + 4) return {'u', 2};
  return {code < 0x80 ? static_cast<char>(code) : '\0', 6};
}

tl::unexpected<ChatFailure> failure(std::string message, bool cut_off = false, int status = 0) {
  return tl::unexpected<ChatFailure>(ChatFailure{std::move(message), cut_off, status});
}

}  // namespace

std::string one_line(std::string_view text, std::size_t most) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool blank = byte <= 0x20 || byte == 0x7f;
    if (blank && (line.empty() || line.back() == ' ')) continue;
    line += blank ? ' ' : c;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  if (line.size() <= most) return line;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;  // not inside a UTF-8 sequence
  return line.substr(0, end) + "…";
}

std::string chat_body(const std::vector<Message>& messages, const Sampling& sampling, const std::string& model) {
  json list = json::array();
  for (const Message& message : messages) {
    json entry = json::object();
    entry["role"] = message.role;
    entry["content"] = message.content;
    list.push_back(std::move(entry));
  }
  json body = json::object();
  body["model"] = model;
  body["messages"] = std::move(list);
  body["stream"] = false;
  if (sampling.temperature) body["temperature"] = *sampling.temperature;
  if (sampling.top_p) body["top_p"] = *sampling.top_p;
  if (sampling.max_tokens) body["max_tokens"] = *sampling.max_tokens;
  if (sampling.seed) body["seed"] = *sampling.seed;
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

tl::expected<Reply, ChatFailure> parse_chat_reply(std::string_view body) {
  const auto first = body.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return failure("the response is empty", true);
  const json response = json::parse(body, nullptr, false);
  if (response.is_discarded()) {
    if (body[first] != '{') return failure("the response is not JSON: " + one_line(body, 300));
    const ParseTrouble trouble = trouble_of(body);
    if (!trouble.what.empty()) return failure("the response " + trouble.what);
    return failure(
        (trouble.cut_off ? "the response is JSON that stops in the middle: " : "the response is malformed JSON: ") +
            one_line(body, 300),
        true);
  }
  if (!response.is_object()) return failure("the response is not a JSON object: " + one_line(body, 300));
  if (const auto error = response.find("error"); error != response.end() && !error->is_null()) {
    const auto status = count_at(*error, "code");
    return failure("the server reports: " + server_message(body), false,
                   static_cast<int>(std::min<std::int64_t>(status.value_or(0), 999)));
  }
  const auto choices = response.find("choices");
  if (choices == response.end() || !choices->is_array() || choices->empty()) {
    return failure("the response has no choices: " + one_line(body, 300));
  }
  const json& choice = (*choices)[0];
  const json& message = object_at(choice, "message");
  if (message.empty()) return failure("the response's choice has no message: " + one_line(body, 300));

  Reply reply;
  reply.ok = true;
  if (const auto content = message.find("content"); content != message.end()) {
    std::optional<std::string> text = content_text(*content);
    if (!text) {
      return failure(std::string("the response's content is neither text nor a list of texts but of type ") +
                     content->type_name() + ": " + one_line(body, 300));
    }
    reply.text = std::move(*text);
  }
  if (reply.text.empty()) reply.text = string_at(message, "refusal");
  reply.reasoning = string_at(message, "reasoning_content");
  if (reply.reasoning.empty()) reply.reasoning = string_at(message, "reasoning");
  reply.finish_reason = string_at(choice, "finish_reason");
  reply.served_model = string_at(response, "model");
  const json& usage = object_at(response, "usage");
  reply.usage.prompt_tokens = count_at(usage, "prompt_tokens");
  reply.usage.completion_tokens = count_at(usage, "completion_tokens");
  reply.usage.reasoning_tokens = count_at(object_at(usage, "completion_tokens_details"), "reasoning_tokens");
  reply.usage.cached_tokens = count_at(object_at(usage, "prompt_tokens_details"), "cached_tokens");
  return reply;
}

std::string server_message(std::string_view body) {
  const json parsed = json::parse(body, nullptr, false);
  std::string text;
  if (parsed.is_object()) {
    const auto error = parsed.find("error");
    if (error != parsed.end() && error->is_string()) text = error->get<std::string>();
    if (text.empty()) text = string_at(object_at(parsed, "error"), "message");
    if (text.empty()) text = string_at(parsed, "message");
    if (text.empty()) text = string_at(parsed, "detail");
  }
  text = one_line(text.empty() ? body : std::string_view(text), 300);
  return text.empty() ? "(no message)" : text;
}

std::string without_key(std::string text, const std::string& key) {
  if (key.size() < 8) return text;
  std::string clean;  // not replaced in place: a body of 64 MiB may be nothing but keys
  std::size_t begin = 0;
  for (std::size_t at; (at = text.find(key, begin)) != std::string::npos; begin = at + key.size()) {
    clean.append(text, begin, at - begin);
    clean += "[key]";
  }
  if (begin == 0) return text;
  return clean.append(text, begin);
}

std::string without_escaped_key(std::string body, const std::string& key) {
  if (key.size() < 8 || body.find('\\') == std::string::npos) return without_key(std::move(body), key);
  std::string clean;
  for (std::size_t begin = 0; begin < body.size();) {
    std::size_t end = begin, matched = 0;
    while (matched < key.size() && end < body.size()) {
      const auto [character, length] = escaped_at(body, end);
      if (character != key[matched]) break;
      end += length;
      ++matched;
    }
    if (matched == key.size()) {
      clean += "[key]";
    } else {
      end = begin + escaped_at(body, begin).second;
      clean.append(body, begin, end - begin);
    }
    begin = end;
  }
  return clean;
}

}  // namespace anneal::llm
