// Kernels handed to `anneal eval`: a .py file, a folder of them, or JSONL.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "agents/suite.h"
#include "async/result.h"

namespace anneal::tools {

struct Submission {
  std::string label;  // where it comes from: a path, or "file.jsonl:3"
  agents::Task task;
  std::string code;
};

struct Submissions {
  std::vector<Submission> list;
  std::vector<std::string> problems;  // those that cannot be judged, a sentence each that names the file (and line)
};

// JSONL: {"task" | "file": ..., "code" | "predict": ...}; fences, reasoning and the text after a line of 146 '#' are
// removed. A .py file is for `task` when given, else for the task that its name is, else for the task that its folder's
// name is. One that cannot be read or is no text is a problem of its own. Errors name the file and line; a name that is
// no task gets the nearest one.
Result<Submissions> read_submissions(const std::filesystem::path& path, const agents::Suite& suite,
                                     const std::string& task);

}  // namespace anneal::tools
