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
  if (is_database(path)) return fail(ErrorKind::bad_input, path.string() + " is a database; write to another file.");
  const std::filesystem::path temporary = path.string() + ".tmp";
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
  std::filesystem::rename(temporary, path, error);
  if (error) return failed(error.message());
  return {};
}

}  // namespace anneal::transitions
