// Line diffs of two texts (E. Myers, "An O(ND) Difference Algorithm and Its Variations", 1986).
#pragma once

#include <string>
#include <string_view>

namespace anneal::transitions {

// The smallest edit takes time and memory that grow with its square: above this many lines (of a reply of megabytes, no
// kernel of a person's) all between the common beginning and the common end counts as replaced.
inline constexpr int most_edits = 8'000;

struct DiffSize {
  int added = 0;    // lines of `after` that are not in `before`
  int removed = 0;  // lines of `before` that are not in `after`
};

// The smallest number of added and removed lines that turns `before` into `after`, where it is at most most_edits.
DiffSize diff_size(std::string_view before, std::string_view after);

// The same edit in unified format (without file header), `context` unchanged lines around each hunk; empty when equal.
std::string unified_diff(std::string_view before, std::string_view after, int context = 3);

}  // namespace anneal::transitions
