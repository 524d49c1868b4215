#include "agents/reply.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <vector>

#include "agents/text.h"

namespace anneal::agents {
namespace {

constexpr size_t strategy_cap = 600;
constexpr int most_without_end = 16;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

struct Fence {
  char mark = 0;  // 0: the line is no fence
  size_t length = 0;
  size_t indent = 0;
  std::string tag;  // first word of the info string, lower case
};

Fence fence_of(std::string_view line) {
  Fence fence;
  const size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
  if (begin == line.size() || (line[begin] != '`' && line[begin] != '~')) return fence;
  const char mark = line[begin];
  const size_t end = std::min(line.find_first_not_of(mark, begin), line.size());
  if (end - begin < 3) return fence;
  const std::string info = trim(line.substr(end));
  if (mark == '`' && info.find('`') != std::string::npos) return fence;  // inline code
  fence.mark = mark;
  fence.length = end - begin;
  fence.indent = begin;
  for (const char c : info) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '+' && c != '-' && c != '_' && c != '#') break;
    fence.tag += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (fence.tag.empty() && !info.empty()) fence.tag = info;
  return fence;
}

// Follows Python's triple-quoted strings from line to line: a fence inside a docstring does not close the block.
class QuoteTracker {
 public:
  bool inside() const { return !open_.empty(); }
  void feed(std::string_view line) {
    size_t at = 0;
    while (at < line.size()) {
      const char c = line[at];
      if (!open_.empty()) {
        if (c == '\\') {
          at += 2;
        } else if (line.substr(at, 3) == open_) {
          open_.clear();
          at += 3;
        } else {
          ++at;
        }
        continue;
      }
      if (c == '#') return;
      if (c != '"' && c != '\'') {
        ++at;
        continue;
      }
      if (at + 2 < line.size() && line[at + 1] == c && line[at + 2] == c) {
        open_ = std::string(3, c);
        at += 3;
        continue;
      }
      for (++at; at < line.size() && line[at] != c; ++at) {
        if (line[at] == '\\') ++at;
      }
      ++at;
    }
  }

 private:
  std::string open_;
};

bool is_python(const std::string& tag) {
  static constexpr std::array<std::string_view, 6> tags = {"", "python", "python3", "py", "triton", "tilelang"};
  return std::find(tags.begin(), tags.end(), tag) != tags.end();
}

struct Block {
  std::string code;
  bool python = false;
  bool closed = false;
  size_t begin_line = 0;
};

std::vector<Block> blocks_of(const std::vector<std::string_view>& lines) {
  std::vector<Block> blocks;
  size_t at = 0;
  int without_end = 0;
  while (at < lines.size()) {
    const Fence open = fence_of(lines[at]);
    if (open.mark == 0) {
      ++at;
      continue;
    }
    const auto closes = [&](std::string_view line) {
      const Fence fence = fence_of(line);
      return fence.mark == open.mark && fence.length >= open.length && fence.tag.empty();
    };
    Block block;
    block.python = is_python(open.tag);
    block.begin_line = at;
    // First with regard to docstrings; when that finds no end (broken quotes), without. Each such look reads all the
    // rest, so a reply gets few of them.
    size_t end = lines.size();
    for (const bool regard_quotes : {true, false}) {
      if (regard_quotes && without_end == most_without_end) continue;
      QuoteTracker quotes;
      for (size_t i = at + 1; i < lines.size(); ++i) {
        if (closes(lines[i]) && !(regard_quotes && block.python && quotes.inside())) {
          end = i;
          break;
        }
        quotes.feed(lines[i]);
      }
      if (end < lines.size()) break;
      ++without_end;
    }
    block.closed = end < lines.size();
    for (size_t i = at + 1; i < end; ++i) {
      std::string_view line = lines[i];
      size_t strip = 0;
      while (strip < open.indent && strip < line.size() && (line[strip] == ' ' || line[strip] == '\t')) ++strip;
      block.code += line.substr(strip);
      block.code += '\n';
    }
    blocks.push_back(std::move(block));
    at = end + 1;
  }
  return blocks;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// `entry` is bound at top level: "def entry(", "entry = ..." or "class entry".
bool defines(const std::string& code, const std::string& entry) {
  QuoteTracker quotes;
  for (std::string_view line : lines_of(code)) {
    const bool in_string = quotes.inside();
    quotes.feed(line);
    if (in_string || line.empty() || line[0] == ' ' || line[0] == '\t') continue;
    std::string_view rest = line;
    bool definition = false;
    for (std::string_view word : {std::string_view("async"), std::string_view("def"), std::string_view("class")}) {
      if (!rest.starts_with(word) || rest.size() == word.size() || is_word(rest[word.size()])) continue;
      definition = word != "async";
      rest.remove_prefix(word.size());
      rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    }
    if (!rest.starts_with(entry)) continue;
    rest.remove_prefix(entry.size());
    if (!rest.empty() && is_word(rest[0])) continue;
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    if (definition) return true;
    if (rest.starts_with("=") && !rest.starts_with("==")) return true;
  }
  return false;
}

bool is_refusal(const std::string& text) {
  std::string head;
  for (const char c : text.substr(0, 400)) head += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  static constexpr std::array<std::string_view, 12> phrases = {
      "i can't help",   "i cannot help",   "i can't assist",     "i cannot assist",
      "i'm unable to",  "i am unable to",  "i can't provide",    "i cannot provide",
      "i'm sorry, but", "i am sorry, but", "i can\xE2\x80\x99t", "i won't be able"};
  return std::any_of(phrases.begin(), phrases.end(),
                     [&](std::string_view phrase) { return head.find(phrase) != std::string::npos; });
}

}  // namespace

std::string visible_answer(const llm::Reply& reply) {
  std::string text;
  text.reserve(reply.text.size());
  for (size_t i = 0; i < reply.text.size(); ++i) {
    if (reply.text[i] == '\r' && i + 1 < reply.text.size() && reply.text[i + 1] == '\n') continue;
    text += reply.text[i];
  }
  constexpr std::string_view close = "</think>";
  constexpr std::string_view open = "<think>";
  const size_t closed = text.rfind(close);
  if (closed != std::string::npos) text = text.substr(closed + close.size());
  // Reasoning that never ended is no answer. Only at the beginning: code may well hold the word.
  const size_t begin = std::min(text.find_first_not_of(" \t\n"), text.size());
  if (text.compare(begin, open.size(), open) == 0) return "";
  return text;
}

ParsedReply parse_reply(const llm::Reply& reply, const std::string& entry) {
  ParsedReply parsed;
  if (!reply.ok) {
    parsed.reply_class = "api_error";
    return parsed;
  }
  const bool cut = reply.finish_reason == "length";
  const std::string text = visible_answer(reply);
  if (trim(text).empty()) {
    const bool reasoning_cut = reply.text.find("<think>") != std::string::npos;
    parsed.reply_class = "empty";
    if (cut || reasoning_cut) parsed.reply_class = "truncated";
    if (reply.finish_reason == "content_filter") parsed.reply_class = "refusal";
    return parsed;
  }
  const auto lines = lines_of(text);
  const auto blocks = blocks_of(lines);
  const Block* found = nullptr;
  bool any_code = false;
  for (const Block& block : blocks) {
    if (!block.closed || !block.python || trim(block.code).empty()) continue;
    any_code = true;
    if (defines(block.code, entry)) found = &block;
  }
  size_t strategy_end = lines.size();
  if (!blocks.empty()) strategy_end = found != nullptr ? found->begin_line : blocks.front().begin_line;
  std::string before;
  for (size_t i = 0; i < strategy_end; ++i) {
    before += lines[i];
    before += '\n';
  }
  parsed.strategy = trim(clean_text(trim(before), strategy_cap));

  if (found != nullptr) {
    parsed.reply_class = "ok";
    parsed.code = found->code;
  } else if ((!blocks.empty() && !blocks.back().closed) || (cut && !any_code)) {
    parsed.reply_class = "truncated";
  } else if (any_code) {
    parsed.reply_class = "wrong_entry";
  } else if (reply.finish_reason == "content_filter" || is_refusal(text)) {
    parsed.reply_class = "refusal";
  } else {
    parsed.reply_class = "no_code";
  }
  return parsed;
}

std::string submission_code(const std::string& text, const std::string& entry) {
  llm::Reply reply;
  reply.ok = true;
  reply.text = text;
  std::string visible = visible_answer(reply);
  const std::string separator(146, '#');
  const size_t at = visible.find(separator);
  if (at != std::string::npos) visible.resize(at);
  reply.text = visible;
  const ParsedReply parsed = parse_reply(reply, entry);
  if (parsed.reply_class == "ok") return parsed.code;
  const auto lines = lines_of(visible);
  const auto blocks = blocks_of(lines);
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    if (block->python) return block->code;
  }
  return visible;
}

}  // namespace anneal::agents
