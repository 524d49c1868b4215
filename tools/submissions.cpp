#include "tools/submissions.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "agents/reply.h"
#include "agents/suggest.h"
#include "agents/text.h"
#include "transitions/database.h"

namespace anneal::tools {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

Result<std::string> read_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {  // reading a pipe would wait for ever
    return fail(ErrorKind::bad_input,
                path.string() + ": cannot be read (" + (error ? error.message() : "not a regular file") + ").");
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  // An empty file sets failbit on `text`, not on `in`.
  if (in) text << in.rdbuf();
  if (!in || in.bad()) {
    const std::string why = errno == 0 ? "" : std::string(" (") + std::strerror(errno) + ")";
    return fail(ErrorKind::bad_input, path.string() + ": cannot be read" + why + ".");
  }
  return text.str();
}

// Why `text` cannot be judged, or nothing. JSON, to the judge and in results, must be UTF-8.
std::string text_problem(const std::string& text) {
  if (const size_t at = text.find('\0'); at != std::string::npos) {
    return "holds a NUL byte (at " + std::to_string(at) + "), so it is no Python source.";
  }
  if (agents::first_bad_byte(text)) return "is not UTF-8 text.";
  return "";
}

Result<agents::Task> task_named(const agents::Suite& suite, const std::string& name, const std::string& place) {
  if (const agents::Task* task = suite.find(name)) return *task;
  std::vector<std::string> ids;
  for (const auto& task : suite.tasks) ids.push_back(task.id);
  return fail(ErrorKind::bad_input, place + ": unknown task " + agents::in_quotes(name) +
                                        agents::suggestion(name, ids) + "; `anneal tasks list --extra` lists all");
}

Result<void> read_python(const fs::path& path, const agents::Suite& suite, const std::string& task,
                         Submissions* submissions) {
  Submission submission;
  submission.label = path.string();
  std::string name = task;
  if (name.empty()) {
    name = path.stem().string();
    const std::string folder = fs::absolute(path).parent_path().filename().string();
    if (suite.find(name) == nullptr && suite.find(folder) != nullptr) name = folder;
  }
  auto found = task_named(suite, name, path.string());
  if (!found) {
    if (task.empty()) found.error().message += " (name the file or its folder after the task, or give --task)";
    return tl::unexpected(found.error());
  }
  submission.task = std::move(*found);
  auto text = read_file(path);
  if (!text) {
    submissions->problems.push_back(text.error().message);
  } else if (const std::string problem = text_problem(*text); !problem.empty()) {
    submissions->problems.push_back(path.string() + ": " + problem);
  } else {
    submission.code = std::move(*text);
    submissions->list.push_back(std::move(submission));
  }
  return {};
}

Result<void> read_jsonl(const fs::path& path, const agents::Suite& suite, Submissions* submissions) {
  const auto text = read_file(path);
  if (!text) return tl::unexpected(text.error());
  std::istringstream lines(*text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (agents::trim(line).empty()) continue;
    Submission submission;
    submission.label = path.string() + ":" + std::to_string(number);
    if (const std::string problem = text_problem(line); !problem.empty()) {
      submissions->problems.push_back(submission.label + ": " + problem);
      continue;
    }
    const json entry = json::parse(line, nullptr, false);
    if (entry.is_discarded() || !entry.is_object()) {
      return fail(ErrorKind::bad_input, submission.label + ": is not a JSON object.");
    }
    const auto string_of = [&](std::initializer_list<const char*> keys) -> Result<std::string> {
      std::string names;
      for (const char* key : keys) {
        const auto at = entry.find(key);
        if (at != entry.end() && at->is_string()) return at->get<std::string>();
        if (at != entry.end())
          return fail(ErrorKind::bad_input, submission.label + ": '" + key + "' must be a string.");
        names += std::string(names.empty() ? "'" : "' or '") + key;
      }
      return fail(ErrorKind::bad_input, submission.label + ": has no " + names + "'.");
    };
    const auto name = string_of({"task", "file"});
    if (!name) return tl::unexpected(name.error());
    const auto code = string_of({"code", "predict"});
    if (!code) return tl::unexpected(code.error());
    auto task = task_named(suite, entry.contains("task") ? *name : fs::path(*name).stem().string(), submission.label);
    if (!task) return tl::unexpected(task.error());
    submission.task = std::move(*task);
    submission.code = agents::submission_code(*code, submission.task.id);
    if (const std::string problem = text_problem(submission.code); !problem.empty()) {
      submissions->problems.push_back(submission.label + ": " + problem);
      continue;
    }
    submissions->list.push_back(std::move(submission));
  }
  return {};
}

}  // namespace

Result<Submissions> read_submissions(const fs::path& path, const agents::Suite& suite, const std::string& task) {
  std::error_code error;
  Submissions submissions;
  Result<void> read;
  if (fs::is_directory(path, error)) {
    std::vector<fs::path> files;
    for (fs::recursive_directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
      std::error_code broken;  // a dangling link stays: reading it says what is wrong
      if (at->path().extension() == ".py" && !at->is_directory(broken)) files.push_back(at->path());
    }
    if (error) return fail(ErrorKind::bad_input, path.string() + ": cannot be listed: " + error.message() + ".");
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
      read = read_python(file, suite, task, &submissions);
      if (!read) return tl::unexpected(read.error());
    }
  } else if (!fs::is_regular_file(path, error)) {
    return fail(ErrorKind::bad_input, path.string() + ": there is no such file or folder.");
  } else if (path.extension() == ".py") {
    read = read_python(path, suite, task, &submissions);
  } else if (path.extension() == ".jsonl") {
    read = read_jsonl(path, suite, &submissions);
  } else {
    if (transitions::is_database(path)) {
      return fail(ErrorKind::bad_input, path.string() + ": judging a database's kernels again is not supported yet.");
    }
    return fail(ErrorKind::bad_input,
                path.string() + ": submissions are a .jsonl file, a .py file or a folder of them.");
  }
  if (!read) return tl::unexpected(read.error());
  if (submissions.list.empty() && submissions.problems.empty())
    return fail(ErrorKind::bad_input, path.string() + ": holds no submission.");
  return submissions;
}

}  // namespace anneal::tools
