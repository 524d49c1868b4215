#include "tools/command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "agents/suggest.h"
#include "agents/text.h"
#include "transitions/database.h"

namespace anneal::tools {

namespace fs = std::filesystem;

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path binary_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

// Whether opening the SQLite file to write would first set it up or migrate it, by its header: user_version stands at
// 60, application_id at 68, big-endian (sqlite.org/fileformat.html).
bool is_to_be_set_up(const fs::path& file) {
  std::string header(100, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(header.data(), static_cast<std::streamsize>(header.size()));
  if (in.gcount() == 0) return fs::is_regular_file(file);
  if (in.gcount() < static_cast<std::streamsize>(header.size()) || !header.starts_with("SQLite format 3")) return false;
  const auto number = [&header](size_t at) {
    std::uint32_t value = 0;
    for (size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<unsigned char>(header[i]);
    return static_cast<int>(value);
  };
  const int version = number(60), application = number(68);
  return (application == 0 && version == 0) ||
         (application == transitions::kApplicationId && version < transitions::kSchemaVersion);
}

}  // namespace

int exit_code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::bad_input:
      return exit_usage;
    case ErrorKind::missing:
      return exit_missing;
    case ErrorKind::budget:
      return exit_budget;
    case ErrorKind::io:
    case ErrorKind::timeout:
    case ErrorKind::unreachable:
    case ErrorKind::internal:
      return exit_failed;
  }
  return exit_failed;
}

std::string not_empty(const std::string& value) { return value.empty() ? "must not be empty" : ""; }

int report_error(const Error& error) {
  std::string line = agents::clean_text(error.message, 4000);
  for (char& c : line) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  std::fprintf(stderr, "anneal: %s\n", line.c_str());
  return exit_code_of(error.kind);
}

void warn_of_sandbox(const evaluator::DeviceFacts& facts) {
  if (facts.sandbox == "full") return;
  const std::string lacks = facts.sandbox.empty() ? "unknown" : agents::clean_text(facts.sandbox, 200);
  std::fprintf(stderr,
               "anneal: WARNING: the sandbox is not full (%s): kernels can reach what this user can reach. Run as root "
               "where namespaces are allowed; 'anneal doctor' says more.\n",
               agents::first_line(lacks).c_str());
}

Result<fs::path> data_dir() {
  const std::string given = environment("ANNEAL_DATA_DIR");
  std::error_code error;
  if (!given.empty()) {
    if (fs::is_directory(fs::path(given) / "tasks", error)) return fs::path(given);
    return fail(ErrorKind::missing, "ANNEAL_DATA_DIR (" + given + ") has no folder tasks/.");
  }
  const fs::path installed = binary_folder().parent_path() / "share" / "anneal";
  if (fs::is_directory(installed / "tasks", error)) return installed;
  const fs::path source = ANNEAL_SOURCE_DIR;
  if (fs::is_directory(source / "tasks", error)) return source;
  return fail(ErrorKind::missing, "Neither " + installed.string() + " nor " + source.string() +
                                      " holds tasks/; set ANNEAL_DATA_DIR to the folder that has tasks/ and prompts/.");
}

Result<fs::path> evald_path() {
  const std::string given = environment("ANNEAL_EVALD");
  const fs::path path = given.empty() ? binary_folder() / "anneal-evald" : fs::path(given);
  std::error_code error;
  if (fs::is_regular_file(path, error)) return path;
  return fail(ErrorKind::missing, "The judge " + path.string() + " is not there; build it with tools/build, or set " +
                                      "ANNEAL_EVALD to its path.");
}

Result<agents::Suite> load_suite(const std::string& name) {
  if (name != "anneal") {
    const std::string kind = name.substr(0, name.find(':'));
    for (const char* later : {"kernelbench-x", "kernelbench", "tritonbench-t"}) {
      if (kind == later)
        return fail(ErrorKind::bad_input, "Suite '" + kind + ":DIR' is not supported yet; use anneal.");
    }
    return fail(ErrorKind::bad_input,
                "Unknown suite " + agents::in_quotes(name) + agents::suggestion(name, {"anneal"}));
  }
  const auto data = data_dir();
  if (!data) return tl::unexpected(data.error());
  return agents::read_suite(*data / "tasks");
}

Result<std::vector<agents::Task>> choose_tasks(const agents::Suite& suite, const std::vector<std::string>& names,
                                               bool extra) {
  std::vector<std::string> ids;
  for (const agents::Task& task : suite.tasks) ids.push_back(task.id);
  for (const std::string& id : names) {
    if (suite.find(id) == nullptr) {
      return fail(ErrorKind::bad_input, "Unknown task " + agents::in_quotes(id) + agents::suggestion(id, ids));
    }
  }
  std::vector<agents::Task> chosen;
  for (const agents::Task& task : suite.tasks) {
    const bool named = std::find(names.begin(), names.end(), task.id) != names.end();
    if (names.empty() ? (!task.extra || extra) : named) chosen.push_back(task);
  }
  return chosen;
}

int gpu_count() {
  int count = 0;
  std::error_code error;
  for (fs::directory_iterator at("/dev", error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.size() > 6 && name.starts_with("nvidia") && name.find_first_not_of("0123456789", 6) == std::string::npos)
      ++count;
  }
  return count;
}

Result<std::string> resolve_device(const std::string& device) {
  if (device == "cpu") return device;
  const bool numbered = device.starts_with("cuda:") && device.size() > 5 && device.size() < 9 &&
                        device.find_first_not_of("0123456789", 5) == std::string::npos;
  if (device != "cuda" && !numbered) {
    return fail(ErrorKind::bad_input,
                "Unknown device " + agents::in_quotes(device) + agents::suggestion(device, {"cpu", "cuda", "cuda:0"}));
  }
  const int gpus = gpu_count();
  if (gpus == 0) {
    return fail(
        ErrorKind::missing,
        "Device '" + device + "' is asked for, but this machine has no NVIDIA GPU (no /dev/nvidia0); use device cpu.");
  }
  if (numbered) return device;
  if (gpus > 1) {
    return fail(ErrorKind::bad_input, "Device 'cuda' means all " + std::to_string(gpus) +
                                          " GPUs, which is not supported yet; name one, e.g. cuda:0.");
  }
  return std::string("cuda:0");
}

Result<void> make_runs_folder(const fs::path& file) {
  if (file.lexically_normal().parent_path() != "runs") return {};
  std::error_code error;
  fs::create_directories("runs", error);
  if (error) return fail(ErrorKind::missing, "runs: cannot be made: " + error.message() + ".");
  return {};
}

Result<void> require_file(const fs::path& file) {
  std::error_code error;
  if (fs::is_regular_file(file, error)) return {};
  if (fs::is_directory(file, error)) {
    return fail(ErrorKind::missing, file.string() + ": is a folder, not an experiment's file.");
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail(ErrorKind::missing, file.string() + ": " + error.message() + ".");
  }
  return fail(ErrorKind::missing, file.string() + ": there is no such file.");
}

Result<void> check_folder_of(const fs::path& path) {
  if (path == "-") return {};
  std::error_code error;
  if (fs::is_directory(path, error)) return fail(ErrorKind::missing, path.string() + " is a folder; name a file.");
  const fs::path parent = path.parent_path();
  const fs::path folder = parent.empty() ? "." : parent;
  if (!fs::exists(folder, error)) {
    return fail(ErrorKind::missing, path.string() + ": the folder " + folder.string() + " does not exist.");
  }
  if (!fs::is_directory(folder, error)) {
    return fail(ErrorKind::missing, path.string() + ": " + folder.string() + " is no folder.");
  }
  return {};
}

Result<void> check_database(const fs::path& file) {
  using transitions::Database;
  std::error_code error;
  const bool there = fs::exists(file, error);
  const bool to_be_made = file.lexically_normal().parent_path() == "runs" && !fs::exists("runs", error);
  if (!there && !to_be_made) {
    const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
    if (auto ok = check_folder_of(file); !ok) return ok;
    if (::access(folder.c_str(), W_OK | X_OK) != 0) {
      return fail(ErrorKind::missing, "Cannot write " + file.string() + ": " + std::strerror(errno) + ".");
    }
  }
  // What is empty or older is set up when it is opened to write.
  if (!there || is_to_be_set_up(file)) return {};
  if (auto database = Database::open(file, Database::Mode::read_only); !database) {
    return tl::unexpected(database.error());
  }
  return {};
}

}  // namespace anneal::tools
