#include "transitions/diff.h"

#include <algorithm>
#include <vector>

namespace anneal::transitions {
namespace {

struct Edit {
  char op;  // ' ', '-', '+'
  std::string_view line;
};

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::vector<Edit> edits(std::string_view before, std::string_view after) {
  const std::vector<std::string_view> a = lines_of(before), b = lines_of(after);
  const int n = static_cast<int>(a.size()), m = static_cast<int>(b.size()), most = n + m;
  // furthest[k + most]: the furthest x on diagonal k; the array before each step is kept to walk back.
  std::vector<int> furthest(static_cast<std::size_t>(2 * most + 2), 0);
  std::vector<std::vector<int>> trace;
  const auto at = [most](std::vector<int>& v, int k) -> int& { return v[static_cast<std::size_t>(k + most)]; };
  bool found = false;
  for (int d = 0; d <= most && !found; ++d) {
    trace.push_back(furthest);
    for (int k = -d; k <= d; k += 2) {
      int x = 0;
      if (d > 0)
        x = k == -d || (k != d && at(furthest, k - 1) < at(furthest, k + 1)) ? at(furthest, k + 1)
                                                                             : at(furthest, k - 1) + 1;
      int y = x - k;
      while (x < n && y < m && a[static_cast<std::size_t>(x)] == b[static_cast<std::size_t>(y)]) ++x, ++y;
      at(furthest, k) = x;
      if (x >= n && y >= m) {
        found = true;
        break;
      }
    }
  }
  std::vector<Edit> out;
  int x = n, y = m;
  for (int d = static_cast<int>(trace.size()) - 1; d >= 0; --d) {
    std::vector<int>& v = trace[static_cast<std::size_t>(d)];
    const int k = x - y;
    const bool down = d > 0 && (k == -d || (k != d && at(v, k - 1) < at(v, k + 1)));
    const int from_k = down ? k + 1 : k - 1;
    const int from_x = d == 0 ? 0 : at(v, from_k);
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
  DiffSize size;
  for (const Edit& edit : edits(before, after)) {
    size.added += edit.op == '+';
    size.removed += edit.op == '-';
  }
  return size;
}

std::string unified_diff(std::string_view before, std::string_view after, int context) {
  const std::vector<Edit> all = edits(before, after);
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
