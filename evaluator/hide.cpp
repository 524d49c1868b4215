#include "evaluator/hide.h"

#include <algorithm>

namespace anneal::evaluator {

namespace fs = std::filesystem;

namespace {

bool is_within(const fs::path& path, const fs::path& folder) {
  const auto [left, right] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return left == folder.end();
}

// Without the links in it; empty when there is no such path.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  return error ? fs::path() : real;
}

std::vector<fs::path> all_resolved(const std::vector<fs::path>& paths) {
  std::vector<fs::path> real;
  for (const fs::path& path : paths) {
    if (fs::path one = resolved(path); !one.empty()) real.push_back(std::move(one));
  }
  return real;
}

}  // namespace

std::vector<fs::path> coverable(const std::vector<fs::path>& wanted, const std::vector<fs::path>& needed,
                                const std::vector<fs::path>& whole, std::vector<fs::path>* open) {
  const std::vector<fs::path> real_needed = all_resolved(needed), real_whole = all_resolved(whole);
  std::vector<fs::path> folders;
  for (const fs::path& folder : all_resolved(wanted)) {
    std::error_code error;
    if (!fs::is_directory(folder, error)) continue;
    const auto holds = [&folder](const fs::path& path) { return is_within(path, folder); };
    const bool blocked = std::any_of(real_needed.begin(), real_needed.end(), holds) ||
                         std::any_of(real_whole.begin(), real_whole.end(),
                                     [&](const fs::path& path) { return holds(path) || is_within(folder, path); });
    if (!blocked) {
      folders.push_back(folder);
    } else if (open != nullptr) {
      open->push_back(folder);
    }
  }
  // A folder inside a covered one is not there any more when its turn comes.
  std::sort(folders.begin(), folders.end());
  std::vector<fs::path> outermost;
  for (fs::path& folder : folders) {
    if (outermost.empty() || !is_within(folder, outermost.back())) outermost.push_back(std::move(folder));
  }
  return outermost;
}

bool lies_in(const fs::path& path, const std::vector<fs::path>& folders) {
  const std::vector<fs::path> real = all_resolved(folders);
  const fs::path where = resolved(path);
  return !where.empty() &&
         std::any_of(real.begin(), real.end(), [&where](const fs::path& folder) { return is_within(where, folder); });
}

}  // namespace anneal::evaluator
