// The judge: owns inputs, references, expected values, tolerances, clocks and verdicts. Never maps candidate code.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "evaluator/daemon/fault.h"
#include "evaluator/daemon/zygote.h"
#include "evaluator/lint_report.h"
#include "evaluator/verdict.h"

namespace anneal::evaluator {

struct JudgeSettings {
  int device = -1;  // -1: CPU, else the CUDA ordinal
  std::string device_text = "cpu";
  std::string suite = "anneal";
  std::string tasks_folder, run_folder;
  std::vector<std::string> visible_folders, hidden_folders;  // of the candidates' view of files (file_view.h)
  int capability = 90;
  // Deadlines are the judge's own clock; a candidate that misses one is killed. `call` covers import, compilation and
  // the first run, `run` each later one.
  double call_seconds = 60;
  double run_seconds = 30;
  double perf_seconds_a_case = 1.5;
};

struct EvaluationOrder {
  std::string task, code;
  bool exe = true, perf = true;
  bool policy_off = false;
};

struct JudgeFacts {
  std::string device_name, torch, triton, python, driver, settings_sha256;
};

class Judge {
 public:
  // Needs the GIL. Reads the front matter of all tasks. Throws std::runtime_error naming the file and the reason.
  static std::unique_ptr<Judge> create(JudgeSettings settings, std::unique_ptr<ZygoteClient> zygote);
  virtual ~Judge() = default;

  // Thread-safe, called without the GIL. Timing on a GPU holds the device alone; all else runs side by side.
  // Throws MachineFault.
  virtual Verdict evaluate(const EvaluationOrder& order) = 0;
  // Likewise, of a task of the suite (lint.h).
  virtual LintReport lint(const std::string& task) = 0;
  virtual const JudgeFacts& facts() const = 0;

  // False for ever once a candidate could not be killed: it may still run on the device.
  virtual bool usable() const = 0;
};

}  // namespace anneal::evaluator
