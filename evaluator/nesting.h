// How deeply JSON nests, asked before it is parsed: whoever copies or prints a value nested without end overflows the
// stack.
#pragma once

#include <string_view>

namespace anneal::evaluator {

// No message of either protocol nests deeper.
inline constexpr int most_nesting = 16;

// The most brackets and braces that are open at once outside strings.
int nesting(std::string_view json);

}  // namespace anneal::evaluator
