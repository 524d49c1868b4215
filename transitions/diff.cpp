#include "transitions/diff.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace anneal::transitions {
namespace {

struct Edit {
  char op;  // ' ', '-', '+'
  std::string_view line;
};

using Lines = std::vector<std::string_view>;

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// The number of edits D of the smallest edit; nothing where it is above most_edits. `trace`, where given, gets what to
// walk back by: the diagonals -d..d before step d, of which there are D² in all, so it is made only where the edit
// itself is wanted.
std::optional<int> edit_distance(const Lines& a, const Lines& b, std::vector<std::vector<int>>* trace) {
  const int n = static_cast<int>(a.size()), m = static_cast<int>(b.size()), most = std::min(n + m, most_edits);
  // furthest[k + most + 1]: the furthest x on diagonal k.
  std::vector<int> furthest(static_cast<std::size_t>(2 * most + 3), 0);
  const auto at = [most](std::vector<int>& v, int k) -> int& { return v[static_cast<std::size_t>(k + most + 1)]; };
  for (int d = 0; d <= most; ++d) {
    if (trace != nullptr) {
      const auto middle = furthest.begin() + most + 1;
      trace->emplace_back(middle - d, middle + d + 1);
    }
    for (int k = -d; k <= d; k += 2) {
      int x = 0;
      if (d > 0)
        x = k == -d || (k != d && at(furthest, k - 1) < at(furthest, k + 1)) ? at(furthest, k + 1)
                                                                             : at(furthest, k - 1) + 1;
      int y = x - k;
      while (x < n && y < m && a[static_cast<std::size_t>(x)] == b[static_cast<std::size_t>(y)]) ++x, ++y;
      at(furthest, k) = x;
      if (x >= n && y >= m) return d;
    }
  }
  return std::nullopt;
}

// How many lines both begin with, and how many of the others both end with.
struct Ends {
  std::size_t begin = 0, end = 0;
};

Ends common_ends(const Lines& a, const Lines& b) {
  Ends same;
  const std::size_t most = std::min(a.size(), b.size());
  while (same.begin < most && a[same.begin] == b[same.begin]) ++same.begin;
  while (same.begin + same.end < most && a[a.size() - 1 - same.end] == b[b.size() - 1 - same.end]) ++same.end;
  return same;
}

// All between the common ends replaced.
std::vector<Edit> coarse_edits(const Lines& a, const Lines& b) {
  const Ends same = common_ends(a, b);
  std::vector<Edit> out;
  for (std::size_t i = 0; i < same.begin; ++i) out.push_back({' ', a[i]});
  for (std::size_t i = same.begin; i < a.size() - same.end; ++i) out.push_back({'-', a[i]});
  for (std::size_t i = same.begin; i < b.size() - same.end; ++i) out.push_back({'+', b[i]});
  for (std::size_t i = a.size() - same.end; i < a.size(); ++i) out.push_back({' ', a[i]});
  return out;
}

std::vector<Edit> edits(const Lines& a, const Lines& b) {
  std::vector<std::vector<int>> trace;
  const std::optional<int> distance = edit_distance(a, b, &trace);
  if (!distance) return coarse_edits(a, b);
  std::vector<Edit> out;
  int x = static_cast<int>(a.size()), y = static_cast<int>(b.size());
  for (int d = *distance; d >= 0; --d) {
    const auto at = [&v = trace[static_cast<std::size_t>(d)], d](int k) { return v[static_cast<std::size_t>(k + d)]; };
    const int k = x - y;
    const bool down = d > 0 && (k == -d || (k != d && at(k - 1) < at(k + 1)));
    const int from_k = down ? k + 1 : k - 1;
    const int from_x = d == 0 ? 0 : at(from_k);
    const int from_y = d == 0 ? 0 : from_x - from_k;
    while (x > from_x && y > from_y) {
      out.push_back({' ', a[static_cast<std::size_t>(--x)]});
      --y;
    }
    if (d == 0) break;
    if (down)
      out.push_back({'+', b[static_cast<std::size_t>(--y)]});
    else
      out.push_back({'-', a[static_cast<std::size_t>(--x)]});
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

DiffSize diff_size(std::string_view before, std::string_view after) {
  const Lines a = lines_of(before), b = lines_of(after);
  const std::optional<int> distance = edit_distance(a, b, nullptr);
  if (!distance) {
    const Ends same = common_ends(a, b);
    return {static_cast<int>(b.size() - same.begin - same.end), static_cast<int>(a.size() - same.begin - same.end)};
  }
  // added - removed is the difference of the lengths, their sum is D.
  const int more = static_cast<int>(b.size()) - static_cast<int>(a.size());
  return {(*distance + more) / 2, (*distance - more) / 2};
}

std::string unified_diff(std::string_view before, std::string_view after, int context) {
  const std::vector<Edit> all = edits(lines_of(before), lines_of(after));
  const int count = static_cast<int>(all.size());
  std::vector<bool> shown(all.size(), false);
  for (int i = 0; i < count; ++i)
    if (all[static_cast<std::size_t>(i)].op != ' ')
      for (int j = std::max(0, i - context); j <= std::min(count - 1, i + context); ++j)
        shown[static_cast<std::size_t>(j)] = true;
  std::string out;
  int a = 1, b = 1;
  for (int i = 0; i < count;) {
    if (!shown[static_cast<std::size_t>(i)]) {
      ++a, ++b, ++i;
      continue;
    }
    int end = i, removed = 0, added = 0;
    std::string body;
    for (; end < count && shown[static_cast<std::size_t>(end)]; ++end) {
      const Edit& edit = all[static_cast<std::size_t>(end)];
      removed += edit.op != '+';
      added += edit.op != '-';
      body += edit.op;
      body += edit.line;
      body += '\n';
    }
    out += "@@ -" + std::to_string(removed ? a : a - 1) + "," + std::to_string(removed) + " +" +
           std::to_string(added ? b : b - 1) + "," + std::to_string(added) + " @@\n" + body;
    a += removed;
    b += added;
    i = end;
  }
  return out;
}

}  // namespace anneal::transitions
