#include "agents/text.h"

#include <algorithm>

namespace anneal::agents {
namespace {

// Length of the well-formed UTF-8 sequence at `text[at]`, 0 when malformed (overlong forms and surrogates included).
size_t sequence_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return tail(at + 1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned second = byte(at + 1);
    if (!tail(at + 1) || !tail(at + 2)) return 0;
    if (first == 0xE0 && second < 0xA0) return 0;
    if (first == 0xED && second > 0x9F) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned second = byte(at + 1);
    if (!tail(at + 1) || !tail(at + 2) || !tail(at + 3)) return 0;
    if (first == 0xF0 && second < 0x90) return 0;
    if (first == 0xF4 && second > 0x8F) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

std::string clean_text(std::string_view text, size_t cap) {
  std::string clean;
  clean.reserve(std::min(text.size(), cap));
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = sequence_length(text, at);
    std::string_view piece = text.substr(at, length == 0 ? 1 : length);
    at += piece.size();
    if (length == 0) {
      piece = "\xEF\xBF\xBD";
    } else if (length == 1) {
      const char c = piece[0];
      if (c == '\r') {
        if (at < text.size() && text[at] == '\n') continue;
        piece = "\n";
      } else if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F) {
        continue;
      }
    } else if (length == 2 && static_cast<unsigned char>(piece[0]) == 0xC2 &&
               static_cast<unsigned char>(piece[1]) < 0xA0) {
      continue;  // C1 controls: some terminals obey them
    } else if (length == 3 && ((piece >= "\xE2\x80\xAA" && piece <= "\xE2\x80\xAE") ||
                               (piece >= "\xE2\x81\xA6" && piece <= "\xE2\x81\xA9"))) {
      continue;  // bidirectional controls: they show a line in another order than it has
    }
    if (clean.size() + piece.size() > cap) {
      clean += "\n... (" + std::to_string(text.size() - at + piece.size()) + " bytes left out)";
      break;
    }
    clean += piece;
  }
  return clean;
}

std::string in_quotes(std::string_view text) {
  constexpr size_t longest = 120;
  // Cleaning all of a large file would be slow, and no more than its head can be shown.
  std::string shown = clean_text(text.substr(0, 4 * longest), 4 * longest);
  for (char& c : shown) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  if (shown.size() > longest || text.size() > 4 * longest) {
    size_t end = std::min(shown.size(), longest);
    while (end > 0 && end < shown.size() && (static_cast<unsigned char>(shown[end]) & 0xC0u) == 0x80u) --end;
    shown.resize(end);
    return "'" + shown + "...' (" + std::to_string(text.size()) + " bytes)";
  }
  return "'" + shown + "'";
}

std::optional<size_t> first_bad_byte(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = sequence_length(text, at);
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::string trim(std::string_view text) {
  constexpr std::string_view space = " \t\r\n\f\v";
  const size_t begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(space) - begin + 1));
}

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

std::string count_of(long long n, std::string_view one, std::string_view many) {
  return std::to_string(n) + " " + std::string(n == 1 ? one : many);
}

}  // namespace anneal::agents
