// Texts of models and kernels are hostile: what is done to them before they enter a prompt, a row or a terminal.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace anneal::agents {

// `text` as valid UTF-8 without bidirectional controls (U+202A..E, U+2066..9) and without control characters other than
// newline and tab (CRLF and CR become newline); bytes that
// are no UTF-8 become U+FFFD. Longer than `cap` bytes: cut at a character, with a note of how much was left out.
std::string clean_text(std::string_view text, size_t cap);

// `text` as an error quotes it, in single quotes: one line, no control characters, at most about 120 bytes. Input may
// be a binary file.
std::string in_quotes(std::string_view text);

// Where the first byte lies that belongs to no UTF-8 character (overlong forms and surrogates are none); nullopt in
// valid text.
std::optional<size_t> first_bad_byte(std::string_view text);

// Without leading and trailing white space.
std::string trim(std::string_view text);

// The first line.
std::string first_line(std::string_view text);

// "1 trajectory", "2 trajectories"
std::string count_of(long long n, std::string_view one, std::string_view many);

}  // namespace anneal::agents
