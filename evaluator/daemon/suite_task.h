// One task as the judge uses it: draws its inputs, runs its reference, knows its rules. The Python objects of the task
// file live behind this header; every method takes the interpreter's lock itself and is thread-safe.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "evaluator/daemon/compare.h"
#include "evaluator/daemon/fault.h"
#include "evaluator/daemon/gpu.h"

namespace anneal::evaluator {

// One argument of a call: a tensor, or a plain value in JSON.
struct Argument {
  std::string name;
  std::optional<at::Tensor> tensor;
  nlohmann::json value;
};

// What the front matter says of judging.
struct TaskRules {
  ComparisonRule::Kind kind = ComparisonRule::Kind::tolerance;
  Thresholds thresholds;
  double error_growth = 4;
  bool needs_triton = true;
  bool needs_integer_dot = false;
  std::vector<std::string> host_operators;  // of torch (aten names) that a kernel may use on whole tensors
  std::vector<std::string> in_place;        // arguments that the reference changes
};

// Of the reference's semantics; nullopt where there is no honest count.
struct Cost {
  std::optional<double> bytes, flops;
  double reduction = 1;  // length of the longest sum behind one output element
};

// One set of inputs: `kind` is standard, outlier or perf. The same values for the same `draw`, always.
struct InputSet {
  std::string case_name, kind, draw;
};

// "case rows (standard)", as messages name it.
inline std::string where(const InputSet& set) { return "case " + set.case_name + " (" + set.kind + ")"; }

class Baseline;

class SuiteTask {
 public:
  // All tasks of a folder, by id. Needs the interpreter's lock. Throws pybind11::error_already_set naming the file.
  static std::vector<std::pair<std::string, std::unique_ptr<SuiteTask>>> read(const std::string& suite,
                                                                              const std::string& folder);
  ~SuiteTask();

  const std::string& file() const { return file_; }
  const std::string& category() const { return category_; }
  // The methods below throw MachineFault naming the task file when it raises or declares nonsense.
  const TaskRules& rules();
  const std::vector<std::string>& case_names();  // in the file's order, held-out ones last; at least one
  const std::vector<std::string>& perf_case_names();
  bool has_outliers(const std::string& case_name);
  bool held_out(const std::string& case_name);
  Cost cost(const InputSet& set);
  std::vector<Argument> inputs(const InputSet& set, const std::string& device);
  // The reference on such inputs, one entry an output, then one an argument changed in place.
  std::vector<Expected> expect(const InputSet& set, const std::string& device);
  // What lint compares the above with. Each as `expect` orders its entries, the oracles in fp64 on the CPU; nullopt
  // where the task file does not define the function (docs/guide/own_task.md).
  std::vector<at::Tensor> reference(const std::vector<Argument>& arguments);
  std::optional<std::vector<at::Tensor>> oracle(const InputSet& set, const std::string& device);
  std::optional<std::vector<at::Tensor>> scheme_oracle(const InputSet& set, const std::string& device);
  std::optional<std::vector<at::Tensor>> low_precision(const std::vector<Argument>& arguments);
  // Arguments whose outlier input is to hold outliers.
  std::vector<std::string> outlier_arguments(const std::string& case_name);
  std::int64_t input_elements(const InputSet& set);
  // The reference as a call for the clock, on these arguments' own memory.
  Baseline baseline(const std::vector<Argument>& arguments);

 private:
  struct Python;
  SuiteTask();
  void load();

  std::string suite_, id_, file_, category_;
  std::unique_ptr<Python> python_;
  bool loaded_ = false;
  TaskRules rules_;
  std::vector<std::string> case_names_, perf_case_names_;
};

// PyTorch's own call of a task, timed in the judge's process.
class Baseline {
 public:
  void warm(gpu::Timer& timer, int calls, double max_seconds) const;
  gpu::Timer::Sample measure(gpu::Timer& timer) const;

 private:
  friend class SuiteTask;
  struct Python;
  std::shared_ptr<Python> python_;
};

}  // namespace anneal::evaluator
