// The nearest valid name, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace anneal::agents {

// Levenshtein distance in bytes (insert, delete and replace cost 1 each).
int edit_distance(std::string_view a, std::string_view b);

// "; did you mean 'geak'?" when one of `valid` is near enough to `word`, else "; valid: a, b, c" (at most 12 names).
std::string suggestion(std::string_view word, const std::vector<std::string>& valid);

}  // namespace anneal::agents
