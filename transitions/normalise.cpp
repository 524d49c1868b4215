#include "transitions/normalise.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "async/sha256.h"

namespace anneal::transitions {
namespace {

bool is_name(unsigned char c) { return std::isalnum(c) || c == '_' || c >= 0x80; }

// Longest first.
constexpr std::array<std::string_view, 25> kOperators = {
    "**=", "//=", ">>=", "<<=", "...", "!=", "==", "<=", ">=", "->", ":=", "+=", "-=",
    "*=",  "/=",  "%=",  "&=",  "|=",  "^=", "@=", "**", "//", ">>", "<<", "<>"};

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view code) : code_(code) {}

  std::vector<std::string> run() {
    if (code_.starts_with("\xef\xbb\xbf")) at_ = 3;
    coding_cookie();
    while (at_ < code_.size()) {
      if (line_start_ && depth_ == 0) {
        if (!indentation()) continue;
      }
      token();
    }
    end_line();
    for (; indents_.size() > 1; indents_.pop_back()) mark("DEDENT");
    return std::move(out_);
  }

 private:
  struct Level {
    std::size_t column = 0, narrow = 0;  // with tabs to the next multiple of eight, and of one
  };

  char peek(std::size_t ahead = 0) const { return at_ + ahead < code_.size() ? code_[at_ + ahead] : '\0'; }

  void mark(const std::string& name) { out_.push_back('\x01' + name); }

  void end_line() {
    if (pending_) mark("NEWLINE");
    pending_ = false;
    line_start_ = true;
  }

  // A comment of the first two lines that names an encoding (PEP 263) changes what the rest means.
  void coding_cookie() {
    std::size_t begin = at_;
    for (int line = 0; line < 2 && begin < code_.size(); ++line) {
      const std::size_t end = std::min(code_.find_first_of("\r\n", begin), code_.size());
      const std::string_view text = code_.substr(begin, end - begin);
      const std::size_t first = text.find_first_not_of(" \t\f");
      if (first != std::string_view::npos && text[first] == '#' &&
          (text.find("coding:") != std::string_view::npos || text.find("coding=") != std::string_view::npos))
        out_.push_back("\x01" + std::string(text.substr(first)));
      begin = end + (code_.substr(end).starts_with("\r\n") ? 2 : 1);
    }
  }

  // Measures the line's indentation; false when the line is blank or a comment and was skipped. As CPython's tokenizer
  // does, with tabs of eight and of one: where the two disagree, or a dedent meets no open level, the file is no
  // Python.
  bool indentation() {
    Level level;
    std::size_t i = at_;
    for (; i < code_.size(); ++i) {
      if (code_[i] == ' ') {
        ++level.column;
        ++level.narrow;
      } else if (code_[i] == '\t') {
        level.column = (level.column / 8 + 1) * 8;
        ++level.narrow;
      } else if (code_[i] == '\f') {
        level = {};
      } else {
        break;
      }
    }
    if (i < code_.size() && code_[i] == '#')
      while (i < code_.size() && code_[i] != '\n' && code_[i] != '\r') ++i;
    if (i >= code_.size() || code_[i] == '\n' || code_[i] == '\r') {
      at_ = std::min(i + 1, code_.size());
      return false;
    }
    at_ = i;
    line_start_ = false;
    if (level.column > indents_.back().column) {
      mark(level.narrow > indents_.back().narrow ? "INDENT" : "TABERROR");
      indents_.push_back(level);
      return true;
    }
    while (level.column < indents_.back().column) {
      indents_.pop_back();
      mark("DEDENT");
    }
    if (level.column != indents_.back().column)
      mark("BADDEDENT" + std::to_string(level.column));
    else if (level.narrow != indents_.back().narrow)
      mark("TABERROR");
    return true;
  }

  void token() {
    const char c = peek();
    if (c == '\n' || c == '\r') {
      ++at_;
      if (depth_ == 0) end_line();
      return;
    }
    if (c == ' ' || c == '\t' || c == '\f') {
      ++at_;
      return;
    }
    if (c == '#') {
      while (at_ < code_.size() && peek() != '\n' && peek() != '\r') ++at_;
      return;
    }
    if (c == '\\' && (peek(1) == '\n' || peek(1) == '\r')) {
      at_ += peek(1) == '\r' && peek(2) == '\n' ? 3 : 2;
      return;
    }
    const std::size_t begin = at_;
    if (c == '"' || c == '\'') return string(begin);
    if (std::isdigit(static_cast<unsigned char>(c)) ||
        (c == '.' && std::isdigit(static_cast<unsigned char>(peek(1))))) {
      while (at_ < code_.size()) {
        const char now = peek();
        const bool hex = peek() != '\0' && at_ > begin + 1 && code_[begin] == '0' && (code_[begin + 1] | 32) == 'x';
        const bool sign = (now == '+' || now == '-') && !hex && (code_[at_ - 1] | 32) == 'e' && at_ > begin;
        if (!is_name(static_cast<unsigned char>(now)) && now != '.' && !sign) break;
        ++at_;
      }
      return emit(begin);
    }
    if (is_name(static_cast<unsigned char>(c))) {
      while (at_ < code_.size() && is_name(static_cast<unsigned char>(peek()))) ++at_;
      const std::string_view name = code_.substr(begin, at_ - begin);
      if ((peek() == '"' || peek() == '\'') && is_prefix(name)) return string(begin);
      return emit(begin);
    }
    for (std::string_view op : kOperators) {
      if (code_.substr(at_).starts_with(op)) {
        at_ += op.size();
        return emit(begin);
      }
    }
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if ((c == ')' || c == ']' || c == '}') && depth_ > 0) --depth_;
    ++at_;
    emit(begin);
  }

  static bool is_prefix(std::string_view name) {
    std::string lower(name);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char ch) { return std::tolower(ch); });
    constexpr std::array<std::string_view, 8> prefixes = {"r", "u", "b", "f", "br", "rb", "fr", "rf"};
    return std::find(prefixes.begin(), prefixes.end(), lower) != prefixes.end();
  }

  // A literal from its prefix at `begin` to its closing quotes. A backslash guards the next character, in raw strings
  // too. An f-string is one token, as Python 3.11 reads it: its quotes do not occur inside.
  void string(std::size_t begin) {
    const char quote = peek();
    const bool triple = peek(1) == quote && peek(2) == quote;
    at_ += triple ? 3 : 1;
    while (at_ < code_.size()) {
      const char c = peek();
      if (c == '\\') {
        at_ = std::min(at_ + 2, code_.size());
      } else if (triple && c == quote && peek(1) == quote && peek(2) == quote) {
        at_ += 3;
        break;
      } else if (!triple && c == quote) {
        ++at_;
        break;
      } else if (!triple && c == '\n') {
        break;  // unclosed: the line ends it
      } else {
        ++at_;
      }
    }
    emit(begin);
  }

  void emit(std::size_t begin) {
    out_.emplace_back(code_.substr(begin, at_ - begin));
    pending_ = true;
  }

  std::string_view code_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool line_start_ = true, pending_ = false;
  std::vector<Level> indents_ = {{}};
  std::vector<std::string> out_;
};

}  // namespace

std::vector<std::string> normalise(std::string_view code) { return Tokenizer(code).run(); }

std::string normalised_sha256(std::string_view code) {
  std::string stream = "anneal-normalised-" + std::to_string(kNormaliserVersion);
  for (const std::string& token : normalise(code)) {
    // Length-prefixed, so that no token's text can pass for a boundary.
    stream += '\n' + std::to_string(token.size()) + ':' + token;
  }
  return sha256_hex(stream);
}

}  // namespace anneal::transitions
