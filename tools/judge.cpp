#include "tools/judge.h"

#include <cstdio>
#include <cstdlib>

#include "agents/text.h"
#include "evaluator/hide.h"

namespace anneal::tools {

namespace fs = std::filesystem;

namespace {

std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

}  // namespace

std::vector<fs::path> folders_to_hide(const fs::path& database, const std::vector<fs::path>& recordings,
                                      const fs::path& data, const fs::path& evald) {
  std::vector<fs::path> wanted = {data / "recordings", data / "tests" / "kernels"};
  for (const fs::path& file : recordings) wanted.push_back(fs::absolute(file).parent_path());
  const fs::path python = environment("ANNEAL_PYTHON", ANNEAL_PYTHON);
  std::error_code error;
  // A kernel's own folder is below the temporary one; the judge covers the tasks itself, and what holds them cannot be
  // covered before.
  const std::vector<fs::path> needed = {evald,          python, fs::temp_directory_path(error),
                                        data / "tasks", "/etc", "/dev",
                                        "/proc",        "/sys", "/usr/local/cuda"};
  std::vector<fs::path> whole = {environment("ANNEAL_EVALUATOR_PYTHON", ANNEAL_SOURCE_DIR "/evaluator/python"),
                                 data / "tasks", "/usr/bin", "/usr/lib"};
  for (const fs::path& one : {python, fs::canonical(python, error)}) {
    if (!one.empty()) whole.push_back(one.parent_path().parent_path() / "lib");
  }
  const char* venv = std::getenv("VIRTUAL_ENV");
  if (venv != nullptr && *venv != '\0') whole.emplace_back(venv);

  if (!database.empty()) {
    const fs::path folder = fs::absolute(database).parent_path();
    wanted.push_back(folder);
    // Beside what it is told to hide, the judge shows kernels nothing but the system's folders and its Python's.
    std::vector<fs::path> shown = {"/usr", "/etc", "/dev", "/proc", "/sys"};
    shown.insert(shown.end(), whole.begin(), whole.end());
    if (evaluator::lies_in(folder, shown) && evaluator::coverable({folder}, needed, whole).empty()) {
      std::fprintf(stderr,
                   "anneal: WARNING: kernels can see %s, where the database lies: the system or the judge's Python is "
                   "there. Keep it elsewhere, e.g. in runs/.\n",
                   agents::clean_text(folder.string(), 300).c_str());
    }
  }
  return evaluator::coverable(wanted, needed, whole);
}

boost::asio::awaitable<Result<std::unique_ptr<evaluator::Client>>> start_client(JudgeOptions options) {
  evaluator::DaemonOptions daemon;
  daemon.program = options.evald;
  daemon.device = options.device;
  daemon.tasks = options.tasks;
  daemon.suite = options.suite;
  daemon.jobs = options.jobs;
  daemon.target = options.target;
  daemon.hide = options.hide;
  auto client = co_await evaluator::Client::start(std::move(daemon));
  co_return client;
}

boost::asio::awaitable<Result<std::unique_ptr<evaluator::Judge>>> start_judge(JudgeOptions options) {
  auto client = co_await start_client(std::move(options));
  if (!client) co_return tl::unexpected(client.error());
  std::unique_ptr<evaluator::Judge> judge = std::move(*client);
  co_return judge;
}

}  // namespace anneal::tools
