// How many processes the kernel has ended for want of memory. It picks its victim by size, not by fault: one that it
// ends need not be the one that took the memory.
#pragma once

#include <cstdint>
#include <string>

namespace anneal::evaluator {

struct OomKills {
  std::uint64_t in_cgroup = 0;   // in the memory cgroup of this process, and below it
  std::uint64_t on_machine = 0;  // as far as /proc shows it

  bool operator==(const OomKills&) const = default;
};

// Since the machine, or the cgroup, began; what the kernel does not tell is 0. root: where /proc and /sys lie.
OomKills oom_kills(const std::string& root = "");

}  // namespace anneal::evaluator
