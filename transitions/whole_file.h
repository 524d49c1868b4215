// A file that is written whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>

#include "async/result.h"

namespace anneal::transitions {

// Lets `write` fill PATH.tmp, forces it to the disk and renames it to `path`; on any error PATH.tmp is removed and
// `path` stays what it was. Errors: what `write` returned; missing (cannot be written, with the reason); bad_input
// (`path` is a database: no output goes over one).
Result<void> write_whole_file(const std::filesystem::path& path,
                              const std::function<Result<void>(std::ostream& out)>& write);

// Why the last write to a stream failed, for a message: errno's text, where the stream's buffer left one.
std::string write_failure();

}  // namespace anneal::transitions
