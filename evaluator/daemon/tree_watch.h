// What a candidate's processes take of the machine beyond what limits on one process hold: memory, and files where no
// mount bounds them. Looked at by the candidate's init, which is their reaper, so that none can leave.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace anneal::evaluator {

// Exit statuses of an init that ended its candidate for one of these reasons. A candidate that leaves with one of them
// by itself is reported as having left with 1.
inline constexpr int memory_exceeded_status = 98;
inline constexpr int folder_exceeded_status = 99;
inline constexpr int machine_short_status = 100;

// What is left to read of an open file, empty where reading fails: those below /proc/PID do (ESRCH) when the process
// has ended since, and a stream would throw then.
std::string rest_of(int file);

// Every process below this one, at any depth.
std::vector<pid_t> descendants();

// Bytes that these processes hold, pages that they share with each other or with anyone counted by share (PSS). Exact
// only when it is more than `enough`: below that a cheaper upper bound is returned.
std::uint64_t memory_of(const std::vector<pid_t>& processes, std::uint64_t enough);

// Bytes on disk of all files below `folder`, not following links; stops counting beyond `enough`.
std::uint64_t bytes_below(const std::string& folder, std::uint64_t enough);

// What the kernel would give before it must end something, and the whole, bytes; nullopt where it does not say.
struct MachineMemory {
  std::uint64_t total = 0, available = 0;
};
std::optional<MachineMemory> machine_memory();

// A candidate's share: three quarters of the machine's memory (or of the container's) over `jobs` candidates, at most
// 16 GiB, in whole quarters of a GiB.
std::uint64_t memory_share(int jobs);

class TreeWatch {
 public:
  // memory_limit: bytes; folder: what to hold to `folder_limit` bytes, empty where a mount does.
  TreeWatch(std::uint64_t memory_limit, std::string folder, std::uint64_t folder_limit)
      : memory_limit_(memory_limit), folder_(std::move(folder)), folder_limit_(folder_limit) {}

  // The status to end with when a limit is passed or the machine itself is about to run out; else nullopt. Cheap enough
  // for twenty calls a second.
  std::optional<int> exceeded();

 private:
  std::uint64_t memory_limit_;
  std::string folder_;
  std::uint64_t folder_limit_;
  unsigned looks_ = 0;
};

}  // namespace anneal::evaluator
