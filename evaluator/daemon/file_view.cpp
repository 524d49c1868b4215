#include "evaluator/daemon/file_view.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>

#include "evaluator/daemon/unique_fd.h"

namespace anneal::evaluator {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_with(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_below(const std::string& path, const std::string& folder) {
  return path.compare(0, folder.size(), folder) == 0 && (path.size() == folder.size() || path[folder.size()] == '/');
}

bool is_below_any(const std::string& path, const std::vector<std::string>& folders) {
  return std::any_of(folders.begin(), folders.end(), [&](const auto& folder) { return is_below(path, folder); });
}

void cover(const std::string& folder, const char* options) {
  if (::mount("tmpfs", folder.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options) != 0) fail_with("cover " + folder);
}

// Covers `folder`, which is at the top of the tree, and shows those of `shown` that lie in it again.
void cover_but(const std::string& folder, const std::vector<std::string>& shown) {
  std::vector<std::pair<std::string, UniqueFd>> kept;
  for (const std::string& path : shown) {
    if (!is_below(path, folder)) continue;
    kept.emplace_back(path, UniqueFd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)));
    if (!kept.back().second) fail_with(path);
  }
  cover(folder, "size=1m,mode=755");
  for (const auto& [path, original] : kept) {
    fs::create_directories(path);
    const std::string source = "/proc/self/fd/" + std::to_string(original.get());
    if (::mount(source.c_str(), path.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) fail_with("show " + path);
  }
}

// Lays a file system of scratch_bytes over `folder`, for its owner, with the plain files that were in it.
void bound(const std::string& folder) {
  struct stat owner{};
  if (::stat(folder.c_str(), &owner) != 0) fail_with(folder);
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    files[entry.path()].assign(std::istreambuf_iterator<char>(in), {});
    if (!in) fail_with(entry.path());
  }
  cover(folder, ("size=" + std::to_string(scratch_bytes) + ",nr_inodes=65536,mode=700,uid=" +
                 std::to_string(owner.st_uid) + ",gid=" + std::to_string(owner.st_gid))
                    .c_str());
  for (const auto& [path, text] : files) {
    std::ofstream out(path, std::ios::binary);
    out << text;
    out.close();
    if (!out) fail_with(path);
  }
}

void set_read_only(const std::string& path, bool read_only, unsigned flags) {
  mount_attr change{};
  (read_only ? change.attr_set : change.attr_clr) = MOUNT_ATTR_RDONLY;
  if (::mount_setattr(AT_FDCWD, path.c_str(), flags, &change, sizeof change) != 0) fail_with("mount flags of " + path);
}

// Landlock, which this glibc does not declare. The numbers of later versions are not in every distribution's headers.
constexpr std::uint64_t access_read =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t access_version_1 = (std::uint64_t{1} << 13) - 1;
constexpr std::uint64_t access_refer = std::uint64_t{1} << 13, access_truncate = std::uint64_t{1} << 14;

int landlock_version() {
  return static_cast<int>(::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION));
}

void allow(int ruleset, const std::string& path, std::uint64_t access) {
  const UniqueFd folder(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!folder) return;  // not on this machine
  landlock_path_beneath_attr rule{};
  rule.allowed_access = access;
  rule.parent_fd = folder.get();
  if (::syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
    fail_with("Landlock: " + path);
  }
}

}  // namespace

const std::vector<std::string>& system_folders() {
  static const std::vector<std::string> folders = {"/bin",    "/dev", "/etc", "/lib",  "/lib32", "/lib64",
                                                   "/libx32", "/nix", "/sys", "/sbin", "/usr",   "/proc"};
  return folders;
}

void show_only(const FileView& view) {
  if (::chdir("/") != 0) fail_with("/");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) fail_with("private mounts");
  // Without a fresh /proc cuInit fails, and the old one would show the judge.
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) fail_with("mount /proc");
  std::vector<std::string> shown;
  for (const std::string& folder : view.visible) {
    if (is_folder(folder) && !is_below_any(folder, system_folders())) shown.push_back(folder);
  }
  shown.push_back(view.scratch);
  std::sort(shown.begin(), shown.end());
  std::vector<std::string> outermost;
  for (const std::string& folder : shown) {
    if (!is_below_any(folder, outermost)) outermost.push_back(folder);
  }
  std::vector<std::string> top;
  for (const auto& entry : fs::directory_iterator("/")) {
    if (entry.is_directory() && !entry.is_symlink()) top.push_back(entry.path().string());
  }
  for (const std::string& folder : top) {
    if (is_below_any(folder, system_folders()) || is_below_any(folder, outermost)) continue;
    cover_but(folder, outermost);
  }
  for (const std::string& folder : view.hidden) {
    if (is_folder(folder) && !is_below(view.scratch, folder)) cover(folder, "size=64k,mode=755");
  }
  bound(view.scratch);
  if (is_folder("/dev/shm")) cover("/dev/shm", "size=64m,mode=1777");
  set_read_only("/", true, AT_RECURSIVE);
  // Thread names are written to /proc; the driver keeps small files in /dev/shm.
  for (const std::string& folder : {view.scratch, std::string("/proc"), std::string("/dev/shm")}) {
    if (is_folder(folder)) set_read_only(folder, false, 0);
  }
}

bool landlock_works() { return landlock_version() >= 1; }

void confine_files(const FileView& view) {
  const int version = landlock_version();
  landlock_ruleset_attr handled{};
  handled.handled_access_fs =
      access_version_1 | (version >= 2 ? access_refer : 0) | (version >= 3 ? access_truncate : 0);
  const UniqueFd ruleset(
      static_cast<int>(::syscall(SYS_landlock_create_ruleset, &handled, sizeof handled.handled_access_fs, 0)));
  if (!ruleset) fail_with("Landlock");
  for (const std::string& folder : system_folders()) allow(ruleset.get(), folder, access_read);
  for (const std::string& folder : view.visible) allow(ruleset.get(), folder, access_read);
  const std::uint64_t change_files =
      LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE | (version >= 3 ? access_truncate : 0);
  allow(ruleset.get(), "/dev", access_read | change_files);
  allow(ruleset.get(), "/proc", access_read | change_files);
  allow(ruleset.get(), "/dev/shm", handled.handled_access_fs);
  allow(ruleset.get(), view.scratch, handled.handled_access_fs);
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) fail_with("Landlock");
}

}  // namespace anneal::evaluator
