#include "agents/suggest.h"

#include <algorithm>
#include <numeric>

namespace anneal::agents {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string suggestion(std::string_view word, const std::vector<std::string>& valid) {
  const std::string* best = nullptr;
  int best_distance = std::max(2, static_cast<int>(word.size()) / 3) + 1;
  for (const std::string& name : valid) {
    if (word.size() > 2 * name.size() + 10) continue;  // no typing error; it may be a whole file
    const int distance = edit_distance(word, name);
    if (distance < best_distance) {
      best = &name;
      best_distance = distance;
    }
  }
  if (best != nullptr) return "; did you mean '" + *best + "'?";
  if (valid.empty()) return "";
  constexpr size_t most = 12;
  std::string text = "; valid: ";
  for (size_t i = 0; i < valid.size() && i < most; ++i) text += (i == 0 ? "" : ", ") + valid[i];
  if (valid.size() > most) text += ", ...";
  return text;
}

}  // namespace anneal::agents
