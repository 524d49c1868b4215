// The YAML of an experiment (docs/interface.md, "A configuration"), checked as far as it can be without a machine.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "agents/suite.h"
#include "async/result.h"
#include "llm/client.h"

namespace anneal::agents {

struct MethodConfig {
  std::string name;   // a registered method (method.h)
  std::string model;  // a key under `models:`
  int seeds = 1;
  int iterations = 1;  // iterations: 3 means 0, 1, 2
  int candidates = 1;  // slots an iteration
  std::string place;   // "file:line:column"
};

// A budget that is absent is unlimited. Spent means: no trajectory begins and no call is made any more (exit code 5).
struct Budget {
  std::optional<long long> tokens;  // prompt + completion tokens of this experiment, stored replies included
  std::optional<double> hours;      // wall time of this run
};

struct ExperimentConfig {
  std::string experiment;
  std::string suite = "anneal";
  std::vector<std::string> categories, names;  // both empty: every task that is not `extra`
  std::vector<std::string> category_places, name_places;
  int limit = 0;                 // of tasks; 0: none
  std::string device = "cpu";    // cpu | cuda | cuda:N
  std::string target = "sm_90";  // cpu: what kernels are compiled for
  int jobs = 0;                  // evaluations at once; 0: the daemon's own choice
  bool judge_refused = false;    // time kernels that the policy refuses, too
  std::vector<llm::ModelConfig> models;
  std::vector<MethodConfig> methods;
  Budget budget;
  nlohmann::json primary;   // as written: named before the run
  std::string config_text;  // the file's text
  nlohmann::json resolved;  // canonical: every key with its value, defaults included
  std::filesystem::path file;

  const llm::ModelConfig* find_model(const std::string& name) const;
};

// Reads `file` and applies `overrides` ("KEY=VALUE", dots go down). Unknown keys, wrong types, unknown names and keys
// given twice are errors with file, line, column and the nearest valid name; so is what is not supported yet.
Result<ExperimentConfig> read_config(const std::filesystem::path& file, const std::vector<std::string>& overrides);

// The tasks of `suite` that the configuration asks for, in the suite's order. Unknown names are errors.
Result<std::vector<Task>> select_tasks(const ExperimentConfig& config, const Suite& suite);

}  // namespace anneal::agents
