// Tasks as the orchestrator sees them: the front matter and description of each tasks/<Category>/<stem>.py, read
// without Python (docs/guide/own_task.md has the format).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "async/result.h"

namespace anneal::agents {

struct Task {
  std::string id;           // "gelu_bf16": also the name of the entry function
  std::string stem;         // "gelu": the file's name and its reference function
  std::string category;     // the folder's name
  std::string precision;    // fp32 | fp16 | bf16 | int8 | w8a8 | w4a16
  std::string signature;    // "gelu_bf16(input: Tensor, approximate: str = 'none') -> Tensor"
  std::string description;  // what a model is told
  std::string comparison;   // tolerance | quantization | exact
  int difficulty = 0;       // 1..5
  bool extra = false;       // a form beyond the published stems: off unless named
  std::filesystem::path file;
  std::string file_sha256;
};

struct Suite {
  std::string name;  // "anneal"
  std::filesystem::path root;
  std::vector<Task> tasks;  // sorted by (category, id)

  const Task* find(const std::string& id) const;
};

// Reads every task file under `root` (category folders, one level). Errors name file, line and key.
Result<Suite> read_suite(const std::filesystem::path& root);

}  // namespace anneal::agents
