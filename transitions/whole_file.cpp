#include "transitions/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "transitions/database.h"

namespace anneal::transitions {
namespace {

// Until this, a power cut could leave the new name with none of the bytes.
bool force_to_disk(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool done = ::fsync(descriptor) == 0;
  const int error = errno;
  ::close(descriptor);
  errno = error;
  return done;
}

}  // namespace

std::string write_failure() { return errno == 0 ? "the disk may be full" : std::strerror(errno); }

Result<void> write_whole_file(const std::filesystem::path& path,
                              const std::function<Result<void>(std::ostream& out)>& write) {
  std::error_code unknown;
  // A device or a pipe is written to; a new file in its place would be another thing.
  const bool in_place = std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown);
  if (!in_place && is_database(path)) {
    return fail(ErrorKind::bad_input, path.string() + " is a database; write to another file.");
  }
  // Of a link, what it leads to.
  const std::filesystem::path whole =
      std::filesystem::is_symlink(path, unknown) ? std::filesystem::weakly_canonical(path, unknown) : path;
  const std::filesystem::path target = in_place ? path : std::filesystem::path(whole.string() + ".tmp");
  const auto take_back = [&] {
    std::error_code ignored;
    if (!in_place) std::filesystem::remove(target, ignored);
  };
  const auto failed = [&](const std::string& why) {
    take_back();
    return fail(ErrorKind::missing, path.string() + ": cannot be written: " + why + ".");
  };
  errno = 0;
  std::ofstream out(target, std::ios::binary | std::ios::trunc);
  if (!out) return failed(write_failure());
  const Result<void> written = write(out);
  out.close();
  if (!out) return failed(write_failure());
  if (!written) {
    take_back();
    return written;
  }
  if (in_place) return {};
  if (!force_to_disk(target)) return failed(write_failure());
  std::error_code error;
  std::filesystem::rename(target, whole, error);
  if (error) return failed(error.message());
  return {};
}

}  // namespace anneal::transitions
