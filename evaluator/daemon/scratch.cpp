#include "evaluator/daemon/scratch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "evaluator/daemon/fault.h"

namespace anneal::evaluator {

namespace {

namespace fs = std::filesystem;

constexpr const char* prefix = "anneal-evald-";

[[noreturn]] void fail_with(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

UniqueFd open_folder(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool is_at(const UniqueFd& folder, const std::string& path) {
  struct stat held{}, found{};
  return ::fstat(folder.get(), &held) == 0 && ::lstat(path.c_str(), &found) == 0 && held.st_dev == found.st_dev &&
         held.st_ino == found.st_ino;
}

// Folders of daemons that ended without removing them. A live one's is locked.
void remove_abandoned(const fs::path& temporary) {
  std::error_code error;
  for (fs::directory_iterator at(temporary, error), end; !error && at != end; at.increment(error)) {
    const std::string path = at->path().string();
    if (at->path().filename().string().rfind(prefix, 0) != 0) continue;
    const UniqueFd folder = open_folder(path);
    struct stat facts{};
    if (!folder || ::fstat(folder.get(), &facts) != 0 || facts.st_uid != ::geteuid()) continue;
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 || !is_at(folder, path)) continue;
    std::error_code ignored;  // it is tried again at the next start
    fs::remove_all(path, ignored);
  }
}

}  // namespace

std::unique_ptr<RunFolder> RunFolder::create() {
  const fs::path temporary = fs::temp_directory_path();
  remove_abandoned(temporary);
  for (;;) {
    std::string path = (temporary / (std::string(prefix) + "XXXXXX")).string();
    if (::mkdtemp(path.data()) == nullptr) fail_with(path);
    UniqueFd lock = open_folder(path);
    if (!lock && errno == ENOENT) continue;  // between the two steps another daemon took it for abandoned
    if (!lock) fail_with(path);
    while (::flock(lock.get(), LOCK_EX) != 0) {
      if (errno != EINTR) fail_with("lock " + path);
    }
    if (!is_at(lock, path)) continue;                      // so it was between these two
    if (::fchmod(lock.get(), 0711) != 0) fail_with(path);  // candidates of another user pass through
    return std::unique_ptr<RunFolder>(new RunFolder(std::move(path), std::move(lock)));
  }
}

void RunFolder::remove() {
  if (path_.empty()) return;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::error_code error;
  do {
    fs::remove_all(path_, error);
    if (!error) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } while (std::chrono::steady_clock::now() < end);
  path_.clear();
}

ScratchFolder::ScratchFolder(const std::string& run, std::optional<unsigned> user) {
  std::string pattern = run + "/XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) throw MachineFault("cannot make a folder in " + run);
  path_ = pattern;
  if (user && ::chown(path_.c_str(), *user, *user) != 0) {
    throw MachineFault("cannot give " + path_ + " to the candidate's user");
  }
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;  // what a hostile candidate left there may resist; it goes with the run's folder
  fs::remove_all(path_, ignored);
}

}  // namespace anneal::evaluator
