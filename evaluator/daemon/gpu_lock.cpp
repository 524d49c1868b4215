#include "evaluator/daemon/gpu_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "evaluator/daemon/fault.h"

namespace anneal::evaluator {

GpuLock::GpuLock(const std::string& uuid) {
  const std::string path = (std::filesystem::temp_directory_path() / ("anneal-gpu-" + uuid + ".lock")).string();
  // Without O_CREAT first: a file of another user in a sticky folder must not be opened with it.
  file_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file_) return;
  file_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file_) throw std::runtime_error("cannot open " + path + ": " + std::strerror(errno));
  ::fchmod(file_.get(), 0666);  // whatever the umask; without it other users get the error above
}

GpuLock::Held GpuLock::hold() {
  constexpr auto most_wait = std::chrono::minutes(30);
  const auto start = std::chrono::steady_clock::now();
  while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR && errno != EWOULDBLOCK) throw MachineFault(std::string("flock: ") + std::strerror(errno));
    if (std::chrono::steady_clock::now() - start > most_wait) {
      throw MachineFault("another process has been timing on this GPU for 30 minutes: see /tmp/anneal-gpu-*.lock");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return Held(file_.get());
}

GpuLock::Held::~Held() { ::flock(fd_, LOCK_UN); }

}  // namespace anneal::evaluator
