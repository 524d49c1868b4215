#include "evaluator/daemon/oom_kills.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace anneal::evaluator {

namespace {

// The number behind `oom_kill` in a file of lines "name number".
std::uint64_t count_in(const std::string& file) {
  std::ifstream in(file);
  for (std::string line, name; std::getline(in, line);) {
    std::uint64_t count = 0;
    if (std::istringstream(line) >> name >> count && name == "oom_kill") return count;
  }
  return 0;
}

}  // namespace

OomKills oom_kills(const std::string& root) {
  OomKills kills;
  kills.on_machine = count_in(root + "/proc/vmstat");
  const std::string cgroups = root + "/sys/fs/cgroup";
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "0::PATH" (version 2) or "9:memory:PATH" (version 1)
    const std::size_t controllers = line.find(':');
    const std::size_t path_at = line.find(':', controllers + 1);
    if (controllers == std::string::npos || path_at == std::string::npos) continue;
    const std::string which = line.substr(controllers + 1, path_at - controllers - 1), path = line.substr(path_at + 1);
    // In a container the path may be the host's, and what is mounted the container's own part.
    for (const std::string& folder : {path, std::string()}) {
      if (which.empty()) kills.in_cgroup = std::max(kills.in_cgroup, count_in(cgroups + folder + "/memory.events"));
      if (which == "memory") {
        kills.in_cgroup = std::max(kills.in_cgroup, count_in(cgroups + "/memory" + folder + "/memory.oom_control"));
      }
    }
  }
  return kills;
}

}  // namespace anneal::evaluator
