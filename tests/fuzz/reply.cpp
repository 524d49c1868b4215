// A model's reply: the class of it and the kernel in it. The input's first line is the entry's name, with a mark behind
// it for a reply that ended otherwise than by "stop".
#include "agents/reply.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz.h"

using namespace anneal;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::view_of(data, size);
  const std::size_t line = std::min(input.find('\n'), input.size());
  std::string entry(input.substr(0, line));
  llm::Reply reply;
  reply.ok = true;
  reply.finish_reason = "stop";
  if (entry.ends_with('!')) reply.finish_reason = "length";
  if (entry.ends_with('?')) reply.finish_reason = "content_filter";
  if (reply.finish_reason != "stop") entry.pop_back();
  reply.text = input.substr(std::min(line + 1, input.size()));

  const agents::ParsedReply parsed = agents::parse_reply(reply, entry);
  constexpr std::array<std::string_view, 6> classes = {"ok", "empty", "refusal", "no_code", "truncated", "wrong_entry"};
  fuzz::require(std::find(classes.begin(), classes.end(), parsed.reply_class) != classes.end(), "a known class");
  fuzz::require(parsed.code.empty() == (parsed.reply_class != "ok"),
                "there is code where the class is ok, and only there");
  if (!parsed.code.empty()) {
    fuzz::require(parsed.code.ends_with('\n'), "code ends with a newline");
    fuzz::require(parsed.code.find(entry) != std::string::npos, "the code names its entry");
  }
  fuzz::require(parsed.strategy.size() <= 700, "the strategy is capped");
  nlohmann::json(parsed.strategy).dump();  // throws for what is no UTF-8
  agents::submission_code(reply.text, entry);
  return 0;
}
