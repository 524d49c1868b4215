#include "evaluator/daemon/suite_task.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;

namespace anneal::evaluator {

namespace {

using nlohmann::json;

TaskRules rules_from(const json& facts) {
  TaskRules rules;
  const std::string comparison = facts.at("comparison").get<std::string>();
  if (comparison == "quantization") {
    rules.kind = ComparisonRule::Kind::quantization;
    const json& limits = facts.at("thresholds");
    rules.thresholds = {limits.at("cosine").get<double>(), limits.at("l1_relative").get<double>(),
                        limits.at("rmse").get<double>()};
  } else if (comparison == "exact") {
    rules.kind = ComparisonRule::Kind::exact;
  } else if (comparison != "tolerance") {
    throw std::runtime_error("comparison: " + comparison + " is not tolerance, exact or quantization");
  }
  rules.error_growth = facts.value("error_growth", 4.0);
  rules.needs_triton = facts.value("policy", "triton") == "triton";
  rules.needs_integer_dot = facts.value("integrity", "") == "w8a8";
  if (facts.contains("host_operators") && !facts["host_operators"].is_null()) {
    rules.host_operators = facts["host_operators"].get<std::vector<std::string>>();
  }
  // Where the operator is itself a move, these do its work; elsewhere a launch may need them.
  if (!facts.value("moves_values", false)) {
    for (const char* move : {"cat", "stack", "constant_pad_nd", "copy_ into a part"}) {
      rules.host_operators.emplace_back(move);
    }
  }
  if (facts.contains("in_place") && !facts["in_place"].is_null()) {
    rules.in_place = facts["in_place"].get<std::vector<std::string>>();
  }
  return rules;
}

template <class F>
auto in_python(const std::string& task, const std::string& file, F&& f) {
  const py::gil_scoped_acquire gil;
  try {
    return f();
  } catch (const MachineFault&) {
    throw;
  } catch (const c10::Error& error) {
    throw MachineFault("task " + task + " (" + file + "): " + error.what_without_backtrace());
  } catch (const std::exception& error) {  // of its Python, or of what it returned
    throw MachineFault("task " + task + " (" + file + "): " + error.what());
  }
}

py::list to_python(const std::vector<Argument>& arguments) {
  const py::object loads = py::module_::import("json").attr("loads");
  py::list inputs;
  for (const Argument& one : arguments) {
    if (one.tensor) {
      inputs.append(py::cast(*one.tensor));
    } else {
      inputs.append(loads(one.value.dump()));
    }
  }
  return inputs;
}

json plain_value(const py::handle value, const std::string& which) {
  try {
    return json::parse(py::module_::import("json").attr("dumps")(value).cast<std::string>());
  } catch (const std::exception&) {  // JSON has no infinity either
    throw std::runtime_error(which +
                             " is neither a tensor nor a value that JSON has: " + py::repr(value).cast<std::string>());
  }
}

std::optional<std::vector<at::Tensor>> tensors_from(const py::object& list) {
  if (list.is_none()) return std::nullopt;
  std::vector<at::Tensor> tensors;
  for (const py::handle one : list) tensors.push_back(one.cast<at::Tensor>());
  return tensors;
}

}  // namespace

// Made once, never destroyed: the interpreter is never finalised, and leaves with the process.
struct SuiteTask::Python {
  std::string precision;
  py::object facts;
  py::object task;  // anneal_eval.task.Task, loaded at its first evaluation
};

struct Baseline::Python {
  py::object call;
  std::string task, file;
  ~Python() {
    const py::gil_scoped_acquire gil;
    call = py::object();
  }
};

SuiteTask::SuiteTask() : python_(std::make_unique<Python>()) {}
SuiteTask::~SuiteTask() { static_cast<void>(python_.release()); }

std::vector<std::pair<std::string, std::unique_ptr<SuiteTask>>> SuiteTask::read(const std::string& suite,
                                                                                const std::string& folder) {
  std::vector<std::pair<std::string, std::unique_ptr<SuiteTask>>> tasks;
  const py::dict found = py::module_::import("anneal_eval.task").attr("read_suite")(folder);
  for (const auto& [id, value] : found) {
    const auto entry = value.cast<py::tuple>();
    std::unique_ptr<SuiteTask> task(new SuiteTask);
    task->suite_ = suite;
    task->id_ = id.cast<std::string>();
    task->file_ = entry[0].cast<std::string>();
    task->python_->precision = entry[1].cast<std::string>();
    task->category_ = entry[2].cast<std::string>();
    task->python_->facts = entry[3];
    tasks.emplace_back(task->id_, std::move(task));
  }
  return tasks;
}

void SuiteTask::load() {
  in_python(id_, file_, [&] {
    if (loaded_) return;  // under the interpreter's lock, so by one thread
    const py::module_ module = py::module_::import("anneal_eval.task");
    try {
      rules_ = rules_from(json::parse(module.attr("facts_json")(python_->facts).cast<std::string>()));
    } catch (const std::exception& error) {
      throw MachineFault("task " + id_ + " (" + file_ + "): front matter: " + error.what());
    }
    python_->task = module.attr("Task")(suite_, id_, file_, python_->precision, python_->facts);
    case_names_ = python_->task.attr("case_names")().cast<std::vector<std::string>>();
    perf_case_names_ = python_->task.attr("perf_case_names")().cast<std::vector<std::string>>();
    if (case_names_.empty()) throw MachineFault("task " + id_ + " (" + file_ + ") has no case");
    loaded_ = true;
  });
}

const TaskRules& SuiteTask::rules() {
  load();
  return rules_;
}

const std::vector<std::string>& SuiteTask::case_names() {
  load();
  return case_names_;
}

const std::vector<std::string>& SuiteTask::perf_case_names() {
  load();
  return perf_case_names_;
}

bool SuiteTask::has_outliers(const std::string& case_name) {
  load();
  return in_python(id_, file_, [&] { return python_->task.attr("has_outliers")(case_name).cast<bool>(); });
}

bool SuiteTask::held_out(const std::string& case_name) {
  load();
  return in_python(id_, file_, [&] { return python_->task.attr("held_out")(case_name).cast<bool>(); });
}

Cost SuiteTask::cost(const InputSet& set) {
  load();
  return in_python(id_, file_, [&] {
    const py::tuple values = python_->task.attr("cost")(set.case_name, set.kind == "perf");
    Cost result;
    if (!values[0].is_none()) result.bytes = values[0].cast<double>();
    if (!values[1].is_none()) result.flops = values[1].cast<double>();
    result.reduction = values[2].cast<double>();
    return result;
  });
}

std::vector<Argument> SuiteTask::inputs(const InputSet& set, const std::string& device) {
  load();
  return in_python(id_, file_, [&] {
    const py::list values = python_->task.attr("inputs")(set.case_name, set.kind, set.draw, device);
    const py::list names = python_->task.attr("argument_names")(set.case_name, set.kind);
    std::vector<Argument> arguments;
    for (std::size_t i = 0; i < values.size(); ++i) {
      Argument argument;
      argument.name = names[i].cast<std::string>();
      if (THPVariable_Check(py::object(values[i]).ptr())) {
        argument.tensor = values[i].cast<at::Tensor>();
      } else {
        argument.value = plain_value(values[i], "case " + set.case_name + ": argument " + argument.name);
      }
      arguments.push_back(std::move(argument));
    }
    return arguments;
  });
}

std::vector<Expected> SuiteTask::expect(const InputSet& set, const std::string& device) {
  load();
  return in_python(id_, file_, [&] {
    const py::object task = python_->task;
    // Drawn anew for each: a reference may change its inputs.
    const auto drawn = [&] { return task.attr("inputs")(set.case_name, set.kind, set.draw, device); };
    const py::list published = task.attr("reference")(drawn());
    const py::list exact = task.attr("reference_fp64")(drawn());
    const py::object scheme = task.attr("scheme_fp64")(drawn());
    std::vector<Expected> expected;
    for (std::size_t i = 0; i < published.size(); ++i) {
      Expected one;
      one.published = published[i].cast<at::Tensor>();
      one.exact = exact[i].cast<at::Tensor>();
      if (!scheme.is_none()) one.scheme = scheme.cast<py::list>()[i].cast<at::Tensor>();
      expected.push_back(std::move(one));
    }
    return expected;
  });
}

std::vector<at::Tensor> SuiteTask::reference(const std::vector<Argument>& arguments) {
  load();
  return in_python(id_, file_, [&] { return *tensors_from(python_->task.attr("reference")(to_python(arguments))); });
}

std::optional<std::vector<at::Tensor>> SuiteTask::oracle(const InputSet& set, const std::string& device) {
  load();
  return in_python(id_, file_, [&] {
    const py::object drawn = python_->task.attr("inputs")(set.case_name, set.kind, set.draw, device);
    return tensors_from(python_->task.attr("oracle")(drawn));
  });
}

std::optional<std::vector<at::Tensor>> SuiteTask::scheme_oracle(const InputSet& set, const std::string& device) {
  load();
  return in_python(id_, file_, [&] {
    const py::object drawn = python_->task.attr("inputs")(set.case_name, set.kind, set.draw, device);
    return tensors_from(python_->task.attr("scheme_oracle")(drawn));
  });
}

std::optional<std::vector<at::Tensor>> SuiteTask::low_precision(const std::vector<Argument>& arguments) {
  load();
  return in_python(id_, file_, [&] { return tensors_from(python_->task.attr("low_precision")(to_python(arguments))); });
}

std::vector<std::string> SuiteTask::outlier_arguments(const std::string& case_name) {
  load();
  return in_python(id_, file_,
                   [&] { return python_->task.attr("outlier_arguments")(case_name).cast<std::vector<std::string>>(); });
}

std::int64_t SuiteTask::input_elements(const InputSet& set) {
  load();
  return in_python(id_, file_,
                   [&] { return python_->task.attr("input_elements")(set.case_name, set.kind).cast<std::int64_t>(); });
}

Baseline SuiteTask::baseline(const std::vector<Argument>& arguments) {
  load();
  return in_python(id_, file_, [&] {
    Baseline baseline;
    baseline.python_ = std::make_shared<Baseline::Python>();
    baseline.python_->call = python_->task.attr("baseline")(to_python(arguments));
    baseline.python_->task = id_;
    baseline.python_->file = file_;
    return baseline;
  });
}

void Baseline::warm(gpu::Timer& timer, int calls, double max_seconds) const {
  in_python(python_->task, python_->file, [&] { timer.warm([this] { python_->call(); }, calls, max_seconds); });
}

gpu::Timer::Sample Baseline::measure(gpu::Timer& timer) const {
  return in_python(python_->task, python_->file, [&] { return timer.measure([this] { python_->call(); }); });
}

}  // namespace anneal::evaluator
