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
  if (std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path, unknown)) {
    errno = 0;
    std::ofstream out(path, std::ios::binary);
    const Result<void> written = out ? write(out) : Result<void>();
    out.close();
    if (!out) return fail(ErrorKind::missing, path.string() + ": cannot be written: " + write_failure() + ".");
    return written;
  }
  if (is_database(path)) return fail(ErrorKind::bad_input, path.string() + " is a database; write to another file.");
  // Of a link, what it leads to.
  const std::filesystem::path whole =
      std::filesystem::is_symlink(path, unknown) ? std::filesystem::weakly_canonical(path, unknown) : path;
  const std::filesystem::path temporary = whole.string() + ".tmp";
  const auto failed = [&](const std::string& why) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    return fail(ErrorKind::missing, path.string() + ": cannot be written: " + why + ".");
  };
  errno = 0;
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  if (!out) return failed(write_failure());
  const Result<void> written = write(out);
  out.close();
  if (!out) return failed(write_failure());
  if (!written) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    return written;
  }
  if (!force_to_disk(temporary)) return failed(write_failure());
  std::error_code error;
  std::filesystem::rename(temporary, whole, error);
  if (error) return failed(error.message());
  return {};
}

}  // namespace anneal::transitions
