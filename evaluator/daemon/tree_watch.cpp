#include "evaluator/daemon/tree_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "evaluator/daemon/unique_fd.h"

namespace anneal::evaluator {

namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file ? rest_of(file.get()) : "";
}

// The number after `name` in a file of lines "name:   number kB".
std::optional<std::uint64_t> kib_after(const std::string& text, const std::string& name) {
  const std::size_t at = text.find(name);
  if (at == std::string::npos) return std::nullopt;
  return std::strtoull(text.c_str() + at + name.size(), nullptr, 10);
}

std::uint64_t resident_bytes(pid_t process) {
  unsigned long long size = 0, resident = 0;
  std::ifstream("/proc/" + std::to_string(process) + "/statm") >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Its share of what it holds; all that it holds where the kernel does not tell the share.
std::uint64_t proportional_bytes(pid_t process) {
  const auto share = kib_after(text_of("/proc/" + std::to_string(process) + "/smaps_rollup"), "\nPss:");
  return share ? *share << 10 : resident_bytes(process);
}

// A limit file of a memory cgroup; nullopt for "max" and where there is none.
std::optional<std::uint64_t> limit_in(const char* path) {
  std::uint64_t limit = 0;
  if (std::ifstream(path) >> limit) return limit;
  return std::nullopt;
}

}  // namespace

std::string rest_of(int file) {
  std::string text;
  char part[4096];
  for (ssize_t count; (count = ::read(file, part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(count));
  return text;
}

std::vector<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    const pid_t process = std::atoi(at->path().filename().c_str());
    if (process <= 0) continue;
    const std::string stat = text_of(at->path().string() + "/stat");
    const std::size_t name_end = stat.rfind(')');  // a name may hold anything
    if (name_end == std::string::npos || name_end + 4 > stat.size()) continue;
    children.emplace(static_cast<pid_t>(std::atoi(stat.c_str() + name_end + 4)), process);
  }
  std::vector<pid_t> found = {::getpid()};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i]);
    for (auto child = first; child != last; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

std::uint64_t memory_of(const std::vector<pid_t>& processes, std::uint64_t enough) {
  std::uint64_t resident = 0;
  for (const pid_t process : processes) resident += resident_bytes(process);
  if (resident <= enough) return resident;
  std::uint64_t shares = 0;
  for (const pid_t process : processes) shares += proportional_bytes(process);
  return shares;
}

std::uint64_t bytes_below(const std::string& folder, std::uint64_t enough) {
  std::uint64_t bytes = 0;
  std::error_code error;
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator at(folder, options, error), end; !error && at != end && bytes <= enough;
       at.increment(error)) {
    struct stat facts{};
    if (::lstat(at->path().c_str(), &facts) == 0) bytes += static_cast<std::uint64_t>(facts.st_blocks) * 512;
  }
  return bytes;
}

std::optional<MachineMemory> machine_memory() {
  const std::string text = text_of("/proc/meminfo");
  const auto total = kib_after(text, "MemTotal:"), available = kib_after(text, "\nMemAvailable:");
  if (!total || !available) return std::nullopt;
  return MachineMemory{*total << 10, *available << 10};
}

std::uint64_t memory_share(int jobs) {
  constexpr std::uint64_t most = std::uint64_t{16} << 30;
  const auto machine = machine_memory();
  std::uint64_t whole = machine ? machine->total : most;
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    whole = std::min(whole, limit_in(path).value_or(whole));
  }
  const std::uint64_t share = std::min(most, whole / 4 * 3 / static_cast<std::uint64_t>(std::max(1, jobs)));
  constexpr std::uint64_t step = 256 << 20;  // another kernel of the system leaves the machine a few MiB more or less
  return share < step ? share : share / step * step;
}

std::optional<int> TreeWatch::exceeded() {
  constexpr unsigned looks_a_walk = 10;  // a folder of many files takes long to walk
  if (memory_of(descendants(), memory_limit_) > memory_limit_) return memory_exceeded_status;
  if (!folder_.empty() && looks_++ % looks_a_walk == 0 && bytes_below(folder_, folder_limit_) > folder_limit_) {
    return folder_exceeded_status;
  }
  // Memory that no process shows: the driver's, sockets', another program's. Nobody can say whose fault that is.
  const auto machine = machine_memory();
  if (machine && machine->available < machine->total / 32) return machine_short_status;
  return std::nullopt;
}

}  // namespace anneal::evaluator
