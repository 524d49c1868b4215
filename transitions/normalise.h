// Normalised code (version 2): a Python source's token stream without comments, blank lines and spacing. Two sources
// with the same stream behave alike, whatever their layout.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace anneal::transitions {

inline constexpr int kNormaliserVersion = 2;

// Tokens in order: names, numbers, operators and whole string literals as written; "NEWLINE" at the end of a logical
// line, "INDENT" and "DEDENT" where the block depth changes, "BADDEDENT<column>" and "TABERROR" where CPython refuses
// the indentation (marked with a leading \x01, which no source token has), and a comment that names the encoding. Never
// fails: what is no Python (an unknown byte, an unclosed string) is kept as a token, so that it still counts.
std::vector<std::string> normalise(std::string_view code);

// SHA-256 (hex) of the version and the tokens.
std::string normalised_sha256(std::string_view code);

}  // namespace anneal::transitions
