// What a candidate sees of the file system: the system's own folders and what Python needs, read-only, and its scratch
// folder. Everything else is not there. Two independent layers do it: mounts where the machine allows a mount
// namespace, and Landlock where the kernel has it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace anneal::evaluator {

struct FileView {
  std::vector<std::string> visible;  // absolute folders that Python and torch are read from, beside the system's own
  std::vector<std::string> hidden;   // absolute folders that stay covered even below a visible one: task files
  std::string scratch;               // the only folder that may be written
};

// What a candidate may keep in its scratch folder, which lies in memory where mounts are allowed.
inline constexpr std::uint64_t scratch_bytes = std::uint64_t{1} << 30;

// The folders of the system itself that every process may read: /usr, /lib, /etc, /dev, /proc, ...
const std::vector<std::string>& system_folders();

// In PID 1 of fresh mount and PID namespaces: private mounts, a fresh /proc, all but the view's folders covered by
// empty ones, everything but the scratch folder read-only. That folder is a file system of its own with the files that
// were in it, which bounds it and ends with the candidate. Throws std::system_error naming the folder.
void show_only(const FileView& view);

// Whether this kernel has Landlock.
bool landlock_works();

// From here on, in this process and all it starts: reading below the system's and the view's folders alone, writing
// below the scratch folder, /dev and /proc alone. Needs no_new_privs. Throws std::system_error.
void confine_files(const FileView& view);

}  // namespace anneal::evaluator
