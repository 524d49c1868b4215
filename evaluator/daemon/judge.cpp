#include "evaluator/daemon/judge.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/random.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <shared_mutex>
#include <sstream>

#include "evaluator/daemon/arena.h"
#include "evaluator/daemon/candidate.h"
#include "evaluator/daemon/compare.h"
#include "evaluator/daemon/feedback.h"
#include "evaluator/daemon/gpu.h"
#include "evaluator/daemon/pairing.h"
#include "evaluator/daemon/tensors.h"

namespace py = pybind11;

namespace anneal::evaluator {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

// Raised whenever a change could change a verdict: evaluations of another version are not found again.
constexpr int judge_version = 1;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Deadline after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::uint64_t entropy() {
  std::uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != sizeof value) throw MachineFault("getrandom failed");
  return value;
}

std::string hex(std::uint64_t value) {
  std::ostringstream text;
  text << std::hex << value;
  return text.str();
}

std::string sha256(const std::string& bytes) {  // needs the GIL
  return py::module_::import("hashlib").attr("sha256")(py::bytes(bytes)).attr("hexdigest")().cast<std::string>();
}

// One argument of a call: a tensor, or a plain value in JSON.
struct Argument {
  std::string name;
  std::optional<at::Tensor> tensor;
  json value;
};

// The Python objects of one task. Made once, never destroyed: the interpreter is never finalised.
struct TaskEntry {
  std::string file, precision, category;
  py::object facts_object;
  json facts;
  py::object task;  // anneal_eval.task.Task, loaded at its first evaluation
};

struct TaskFacts {
  ComparisonRule::Kind kind = ComparisonRule::Kind::tolerance;
  Thresholds thresholds;
  double error_growth = 4;
  bool needs_triton = true;
  bool needs_integer_dot = false;
  std::vector<std::string> in_place;
};

TaskFacts facts_from(const json& facts) {
  TaskFacts result;
  const std::string comparison = facts.at("comparison").get<std::string>();
  if (comparison == "quantization") {
    result.kind = ComparisonRule::Kind::quantization;
    const json& limits = facts.at("thresholds");
    result.thresholds = {limits.at("cosine").get<double>(), limits.at("l1_relative").get<double>(),
                         limits.at("rmse").get<double>()};
  } else if (comparison == "exact") {
    result.kind = ComparisonRule::Kind::exact;
  } else if (comparison != "tolerance") {
    throw std::runtime_error("comparison: " + comparison + " is not tolerance, exact or quantization");
  }
  result.error_growth = facts.value("error_growth", 4.0);
  result.needs_triton = facts.value("policy", "triton") == "triton";
  result.needs_integer_dot = facts.value("integrity", "") == "w8a8";
  if (facts.contains("in_place") && !facts["in_place"].is_null()) {
    result.in_place = facts["in_place"].get<std::vector<std::string>>();
  }
  return result;
}

class JudgeImpl;

// A candidate ended or overran: what the verdict says of it.
struct CandidateLost {
  std::string failure_class, message;
};

// A user of its own for each candidate, so that one that forks without end does not use up the others' processes.
// Beyond the ids that distributions give out; two daemons differ by their process id.
unsigned next_user() {
  static std::atomic<unsigned> count{0};
  return 100'000'000 + static_cast<unsigned>(::getpid()) % 100'000 * 1000 + count++ % 1000;
}

class ScratchFolder {
 public:
  ScratchFolder(bool give_away, unsigned user) {
    std::string pattern = (std::filesystem::temp_directory_path() / "anneal-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw MachineFault("cannot make a folder in " + pattern);
    path_ = pattern;
    if (give_away && ::chown(path_.c_str(), user, user) != 0) {
      throw MachineFault("cannot give " + path_ + " to the candidate's user");
    }
  }
  ~ScratchFolder() {
    std::error_code ignored;  // what a hostile candidate left there may resist; it holds nothing of value
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A live candidate and its arenas, as one evaluation uses them.
class CandidateHandle {
 public:
  CandidateHandle(ZygoteClient& zygote, const CandidateSettings& settings)
      : zygote_(zygote), device_(settings.device), spawned_(zygote.spawn(settings)) {}
  ~CandidateHandle() {
    try {
      end();
    } catch (const std::exception&) {
      // The zygote is gone, and with it, by PDEATHSIG, the candidate.
    }
  }
  CandidateHandle(const CandidateHandle&) = delete;
  CandidateHandle& operator=(const CandidateHandle&) = delete;

  // Throws CandidateLost when there is no answer.
  json ask(const json& request, double seconds, const std::vector<int>& descriptors = {}) {
    json reply;
    Channel::Status status = spawned_.channel.send(request, descriptors);
    if (status == Channel::Status::ok) status = spawned_.channel.receive(reply, after(seconds));
    switch (status) {
      case Channel::Status::ok:
        return reply;
      case Channel::Status::timeout: {
        end();
        std::ostringstream text;
        text << "killed after " << seconds << " s";
        throw CandidateLost{"timeout", text.str()};
      }
      case Channel::Status::malformed:
        end();
        throw CandidateLost{"crashed", "the process sent something else than its result"};
      case Channel::Status::closed:
        throw CandidateLost{"crashed", ended_how()};
    }
    throw MachineFault("unreachable");
  }

  Arena& inputs(std::size_t bytes) { return arena("inputs", inputs_, bytes); }
  Arena& outputs(std::size_t bytes) { return arena("outputs", outputs_, bytes); }

  void end() {
    if (ended_) return;
    ended_ = true;
    status_ = zygote_.kill_and_reap(spawned_);
    if (!status_)
      throw MachineFault("a candidate could not be killed within a minute: the device must not be used any more");
  }

 private:
  Arena& arena(const char* role, std::unique_ptr<Arena>& held, std::size_t bytes) {
    if (held == nullptr || held->bytes() < bytes) {
      held = Arena::create(device_, std::max<std::size_t>(2 * bytes, 1 << 20));
      ask({{"op", "arena"}, {"role", role}, {"bytes", held->bytes()}}, 30, {held->descriptor()});
    }
    return *held;
  }

  std::string ended_how() {
    // The channel closed, so the candidate is gone or going; its init follows at once.
    await_end();
    end();
    if (*status_ == sandbox_failed_status)
      throw MachineFault("the sandbox could not be built (its reason is on stderr)");
    if (*status_ > 128) {
      const char* name = ::sigabbrev_np(*status_ - 128);
      return std::string("the process was ended by SIG") + (name != nullptr ? name : std::to_string(*status_ - 128));
    }
    return "the process ended by itself with exit code " + std::to_string(*status_);
  }

  // Gives the init time to end with the candidate's own status before it is killed.
  void await_end() {
    pollfd ended{spawned_.init.get(), POLLIN, 0};
    while (::poll(&ended, 1, 5000) < 0 && errno == EINTR) {
    }
  }

  ZygoteClient& zygote_;
  int device_;
  Spawned spawned_;
  std::unique_ptr<Arena> inputs_, outputs_;
  bool ended_ = false;
  std::optional<int> status_;
};

class JudgeImpl : public Judge {
 public:
  JudgeImpl(JudgeSettings settings, std::unique_ptr<ZygoteClient> zygote)
      : settings_(std::move(settings)), zygote_(std::move(zygote)) {}

  void start() {  // under the GIL
    py::dict suite = py::module_::import("anneal_eval.task").attr("read_suite")(settings_.tasks_folder);
    py::object as_json = py::module_::import("anneal_eval.task").attr("facts_json");
    for (const auto& [id, value] : suite) {
      const auto entry = value.cast<py::tuple>();
      TaskEntry task;
      task.file = entry[0].cast<std::string>();
      task.precision = entry[1].cast<std::string>();
      task.category = entry[2].cast<std::string>();
      task.facts_object = entry[3];
      task.facts = json::parse(as_json(entry[3]).cast<std::string>());
      tasks_.emplace(id.cast<std::string>(), std::move(task));
    }
    const py::object torch = py::module_::import("torch");
    facts_.torch = torch.attr("__version__").attr("__str__")().cast<std::string>();
    facts_.triton = py::module_::import("triton").attr("__version__").cast<std::string>();
    facts_.python = py::module_::import("platform").attr("python_version")().cast<std::string>();
    // The references of fp32 convolutions must be fp32: cuDNN's default is TF32.
    torch.attr("backends").attr("cudnn").attr("allow_tf32") = false;
    if (settings_.device >= 0) {
      const gpu::DeviceProperties properties = gpu::open_device(settings_.device);
      facts_.device_name = properties.name;
      facts_.driver = "CUDA " + std::to_string(properties.driver_version / 1000) + "." +
                      std::to_string(properties.driver_version % 1000 / 10);
      timer_ = gpu::Timer::create(settings_.device);
      open_lock();
    } else {
      facts_.device_name = "triton interpreter, sm_" + std::to_string(settings_.capability);
    }
    const json decisive = {{"judge", judge_version},
                           {"suite", settings_.suite},
                           {"device", facts_.device_name},
                           {"capability", settings_.capability},
                           {"torch", facts_.torch},
                           {"triton", facts_.triton},
                           {"call_seconds", settings_.call_seconds},
                           {"run_seconds", settings_.run_seconds},
                           {"perf_seconds_a_case", settings_.perf_seconds_a_case}};
    facts_.settings_sha256 = sha256(decisive.dump());
  }

  Verdict evaluate(const EvaluationOrder& order) override;
  const JudgeFacts& facts() const override { return facts_; }

 private:
  friend class Evaluation;

  // One run at a time times on a GPU, across all anneal processes of the machine.
  void open_lock() {
    const std::string path =
        (std::filesystem::temp_directory_path() / ("anneal-cuda-" + std::to_string(settings_.device) + ".lock"))
            .string();
    lock_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock_) throw std::runtime_error("cannot open " + path + ": " + std::strerror(errno));
  }

  JudgeSettings settings_;
  std::unique_ptr<ZygoteClient> zygote_;
  JudgeFacts facts_;
  std::map<std::string, TaskEntry> tasks_;
  std::unique_ptr<gpu::Timer> timer_;
  UniqueFd lock_;
  std::shared_mutex device_;  // building and checking share the device; timing holds it alone
};

// One evaluation, from code to verdict.
class Evaluation {
 public:
  Evaluation(JudgeImpl& judge, const EvaluationOrder& order) : judge_(judge), order_(order), random_(entropy()) {}

  Verdict run() {
    prepare();
    try {
      if (screen()) {
        call();
        if (verdict_.call.ok && order_.exe) {
          exe();
          policy();
          if (order_.perf) perf();
        }
      }
    } catch (const CandidateLost& lost) {
      lose(lost);
    } catch (const json::exception&) {
      lose({"crashed", "the process sent something else than its result"});
    }
    verdict_.accepted = verdict_.call.ok && verdict_.exe.strict_ok && verdict_.policy.ok;
    if (!verdict_.policy.ok) verdict_.flags.push_back("no_triton_kernel");
    verdict_.feedback = feedback_text(verdict_, detail_);
    return std::move(verdict_);
  }

 private:
  void prepare() {
    const auto found = judge_.tasks_.find(order_.task);
    if (found == judge_.tasks_.end()) throw MachineFault("the suite has no task " + order_.task);
    entry_ = &found->second;
    facts_ = facts_from(entry_->facts);
    draw_ = hex(entropy()) + hex(entropy());
    verdict_.task = order_.task;
    verdict_.category = entry_->category;
    verdict_.suite = judge_.settings_.suite;
    verdict_.device = judge_.settings_.device_text;
    verdict_.device_name = judge_.facts_.device_name;
    verdict_.settings_sha256 = judge_.facts_.settings_sha256;
    verdict_.draw = draw_;
    const py::gil_scoped_acquire gil;
    verdict_.code_sha256 = sha256(order_.code);
    try {
      if (!entry_->task) {
        entry_->task = py::module_::import("anneal_eval.task")
                           .attr("Task")(judge_.settings_.suite, order_.task, entry_->file, entry_->precision,
                                         entry_->facts_object);
      }
      for (const auto& one : entry_->task.attr("cases").cast<py::dict>())
        case_names_.push_back(one.first.cast<std::string>());
      for (const auto& one : entry_->task.attr("perf_cases").cast<py::dict>()) {
        perf_names_.push_back(one.first.cast<std::string>());
      }
    } catch (const py::error_already_set& error) {
      throw MachineFault("task file " + entry_->file + ": " + error.what());
    }
    if (case_names_.empty()) throw MachineFault("task file " + entry_->file + " has no case");
  }

  // Static screen. Syntax and entry are found by the candidate's process: the judge never parses hostile code.
  bool screen() {
    if (order_.code.find_first_not_of(" \t\r\n") == std::string::npos) {
      fail_call("missing_entry", "the submission is empty");
      return false;
    }
    if (!facts_.needs_integer_dot) return true;
    constexpr std::array forbidden = {"torch.quantize_per_tensor",
                                      "torch.quantize_per_channel",
                                      "torch.dequantize",
                                      "torch.int_repr",
                                      "torch.q_scale",
                                      "torch.q_zero_point",
                                      "torch.ops.quantized",
                                      "torch._int_mm",
                                      "torch.ao.",
                                      "torch.ops.aten"};
    for (const char* name : forbidden) {
      if (order_.code.find(name) != std::string::npos) {
        fail_call("forbidden_api", std::string(name) + " must not be used in this task");
        return false;
      }
    }
    return true;
  }

  void call() {
    const auto start = Clock::now();
    stage_ = &verdict_.call.failure_class;
    const unsigned user = next_user();
    scratch_ = std::make_unique<ScratchFolder>(judge_.zygote_->abilities().drop_user, user);
    const std::string path = scratch_->path() + "/kernel_" + verdict_.code_sha256.substr(0, 16) + ".py";
    std::ofstream file(path);
    file << order_.code;
    file.close();
    if (!file) throw MachineFault("cannot write " + path);
    CandidateSettings settings;
    settings.device = judge_.settings_.device;
    settings.capability = judge_.settings_.capability;
    settings.sandbox = {judge_.settings_.hidden_folders, scratch_->path(), settings.device >= 0, user};
    try {
      candidate_ = std::make_unique<CandidateHandle>(*judge_.zygote_, settings);
    } catch (const std::runtime_error& error) {
      throw MachineFault(std::string("cannot start a candidate: ") + error.what());
    }
    const json loaded =
        candidate_->ask({{"op", "load"}, {"path", path}, {"entry", order_.task}}, judge_.settings_.call_seconds);
    if (passed_call(loaded)) {
      const double left = std::max(1.0, judge_.settings_.call_seconds - seconds_since(start));
      const auto shared = checking();
      const std::vector<Argument> arguments = draw_inputs(case_names_.front(), "standard");
      passed_call(run_candidate_on(arguments, left));
    }
    verdict_.call.seconds = seconds_since(start);
    if (verdict_.call.failure_class == "not_run") {
      verdict_.call.ok = true;
      verdict_.call.failure_class = "ok";
    }
  }

  bool passed_call(const json& reply) {
    const std::string failure = reply.value("class", "crashed");
    if (failure == "ok") return true;
    fail_call(failure, reply.value("message", ""));
    detail_ = reply.value("detail", "");
    return false;
  }

  void fail_call(const std::string& failure_class, const std::string& message) {
    verdict_.call.failure_class = failure_class;
    verdict_.call.message = message;
  }

  void exe() {
    const auto start = Clock::now();
    stage_ = &verdict_.exe.failure_class;
    exe_start_ = start;
    for (const std::string& name : case_names_) {
      for (const char* kind : {"standard", "outlier"}) {
        if (std::strcmp(kind, "outlier") == 0 && !has_outliers(name)) continue;
        case_in_progress_ = name + " (" + kind + ")";
        verdict_.exe.cases.push_back(judge_case(name, kind));
      }
    }
    case_in_progress_.clear();
    repeat_first_case();
    conclude_exe();
    verdict_.exe.seconds = seconds_since(start);
  }

  void conclude_exe() {
    ExeVerdict& exe = verdict_.exe;
    exe.ok = exe.strict_ok = true;
    const CaseVerdict* first = nullptr;
    bool standard_failed = false;
    for (const CaseVerdict& one : exe.cases) {
      exe.ok &= one.ok;
      exe.strict_ok &= one.strict_ok;
      standard_failed |= !one.strict_ok && one.inputs == "standard";
      if (!one.strict_ok && first == nullptr) first = &one;
    }
    exe.failure_class = "ok";
    if (exe.strict_ok && facts_.needs_integer_dot && !integer_dot_) {
      exe.ok = exe.strict_ok = false;
      exe.failure_class = "not_quantized";
      exe.message = "no tl.dot of the compiled kernels takes int8 operands";
    } else if (first != nullptr) {
      exe.failure_class = standard_failed ? first->failure_class : "outlier_only";
      exe.message = "case " + first->name + " (" + first->inputs + "): " + first->message;
      if (exe.deterministic == false && first->failure_class != "ok") exe.failure_class = "race";
    }
  }

  // Same values at fresh addresses: another answer is a race, or reads what nobody wrote.
  void repeat_first_case() {
    if (!first_outputs_ || !verdict_.exe.cases.front().strict_ok) return;
    const auto shared = checking();
    const std::vector<Argument> arguments = draw_inputs(case_names_.front(), "standard");
    const json reply = run_candidate_on(arguments, judge_.settings_.run_seconds);
    CaseVerdict& verdict = verdict_.exe.cases.front();
    if (reply.value("class", "crashed") != "ok") {
      verdict.ok = verdict.strict_ok = false;
      verdict.failure_class = "race";
      verdict.message = "failed when run once more: " + reply.value("message", "");
      return;
    }
    CaseVerdict again;
    const std::optional<std::vector<at::Tensor>> outputs = collect(reply, arguments, first_expected_, again);
    if (!outputs) {
      verdict = again;
      verdict.name = case_names_.front();
      verdict.inputs = "standard";
      return;
    }
    bool same = true;
    for (std::size_t i = 0; i < outputs->size(); ++i) same &= same_bytes((*outputs)[i], (*first_outputs_)[i]);
    verdict_.exe.deterministic = same;
    if (same) return;
    again = compare_all(*outputs, first_expected_, case_names_.front(), false);
    if (!again.strict_ok) {
      again.name = case_names_.front();
      again.inputs = "standard";
      again.failure_class = "race";
      verdict = again;
    }
  }

  // Every use of the device outside timing, the judge's own drawing and comparing included, shares it: work of another
  // evaluation on the judge's stream would be timed as the baseline's.
  [[nodiscard]] std::shared_lock<std::shared_mutex> checking() { return std::shared_lock(judge_.device_); }

  CaseVerdict judge_case(const std::string& name, const std::string& kind) {
    const auto shared = checking();
    CaseVerdict verdict;
    const std::vector<Argument> arguments = draw_inputs(name, kind);
    const json reply = run_candidate_on(arguments, judge_.settings_.run_seconds);
    if (reply.value("class", "crashed") != "ok") {
      verdict.failure_class = reply.value("class", "crashed");
      verdict.message = reply.value("message", "");
      detail_ = reply.value("detail", "");
    } else {
      note_kernels(reply);
      // The reference runs only now, after the candidate.
      std::vector<Expected> expected = expect(name, kind);
      const std::optional<std::vector<at::Tensor>> outputs = collect(reply, arguments, expected, verdict);
      if (outputs) {
        verdict = compare_all(*outputs, expected, name, kind == "perf");
        if (!first_outputs_ && kind == "standard") {
          first_outputs_ = *outputs;
          first_expected_ = std::move(expected);
        }
      }
    }
    verdict.name = name;
    verdict.inputs = kind;
    return verdict;
  }

  CaseVerdict compare_all(const std::vector<at::Tensor>& outputs, const std::vector<Expected>& expected,
                          const std::string& name, bool is_perf) {
    ComparisonRule rule{facts_.kind, facts_.thresholds, reduction_length(name, is_perf), facts_.error_growth};
    std::optional<CaseVerdict> worst;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      CaseVerdict one = compare_output(outputs[i], expected[i], rule);
      if (outputs.size() > 1 && !one.strict_ok) one.message = "output " + std::to_string(i) + ": " + one.message;
      if (!worst || (worst->strict_ok && !one.strict_ok) || (worst->ok && worst->strict_ok && !one.ok))
        worst = std::move(one);
    }
    return *worst;
  }

  // Structure first, then the bytes. nullopt: `verdict` says what is wrong.
  std::optional<std::vector<at::Tensor>> collect(const json& reply, const std::vector<Argument>& arguments,
                                                 const std::vector<Expected>& expected, CaseVerdict& verdict) {
    const auto refuse = [&](const char* failure_class, const std::string& message) {
      verdict.ok = verdict.strict_ok = false;
      verdict.failure_class = failure_class;
      verdict.message = message;
      return std::nullopt;
    };
    const json& described = reply.at("outputs");
    const std::size_t returned = expected.size() - facts_.in_place.size();
    if (described.size() != returned) {
      return refuse("wrong_shape",
                    "returned " + std::to_string(described.size()) + " outputs, expected " + std::to_string(returned));
    }
    json offsets = json::array();
    std::size_t bytes = 0;
    std::vector<TensorLayout> layouts;
    for (std::size_t i = 0; i < returned; ++i) {
      const json& one = described[i];
      const at::Tensor& wanted = expected[i].published;
      if (one.at("kind") != "tensor")
        return refuse("wrong_dtype", "returned a " + one.value("type", "?") + ", not a torch.Tensor");
      const auto shape = one.at("shape").get<std::vector<std::int64_t>>();
      if (at::IntArrayRef(shape) != wanted.sizes()) {
        std::ostringstream text;
        text << "returned shape " << at::IntArrayRef(shape) << ", expected " << wanted.sizes();
        return refuse("wrong_shape", text.str());
      }
      if (one.at("dtype") != dtype_name(wanted.scalar_type())) {
        return refuse("wrong_dtype",
                      "returned dtype " + one.value("dtype", "?") + ", expected " + dtype_name(wanted.scalar_type()));
      }
      if (one.at("device") != wanted.device().str() || !one.value("plain", false)) {
        return refuse("wrong_dtype", "returned a tensor on " + one.value("device", "?") + ", expected a plain one on " +
                                         wanted.device().str());
      }
      if (one.value("aliases_input", true)) return refuse("aliased", "the output shares memory with an input");
      TensorLayout layout;
      layout.dtype = wanted.scalar_type();
      layout.shape = shape;
      layout.strides = one.at("strides").get<std::vector<std::int64_t>>();
      if (wanted.numel() > 0 && layout.span() < wanted.numel()) {
        return refuse("wrong_shape", "the output's strides overlap: it holds fewer elements than its shape says");
      }
      layout.strides = at::empty(wanted.sizes(), at::TensorOptions().device(at::kMeta)).strides().vec();
      layout.offset = bytes;
      offsets.push_back(bytes);
      bytes += align_up(layout.bytes());
      layouts.push_back(layout);
    }
    if (const std::string changed = changed_input(arguments); !changed.empty()) {
      return refuse("mutated_input", "the kernel wrote to its input " + changed);
    }
    Arena& arena = candidate_->outputs(std::max<std::size_t>(bytes, 1));
    arena.poison(bytes);
    candidate_->ask({{"op", "collect"}, {"offsets", offsets}}, judge_.settings_.run_seconds);
    std::vector<at::Tensor> outputs;
    for (const TensorLayout& layout : layouts) {
      outputs.push_back(tensor_at(arena.data(), layout, judge_.settings_.device).clone());
    }
    for (const std::string& name : facts_.in_place) outputs.push_back(placed(name, arguments).clone());
    return outputs;
  }

  // What lies in the arena where argument `name` was put.
  at::Tensor placed(const std::string& name, const std::vector<Argument>& arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].name == name) {
        return tensor_at(candidate_->inputs(0).data(), placed_[i], judge_.settings_.device);
      }
    }
    throw MachineFault("task file " + entry_->file + ": in_place names " + name + ", which no case passes");
  }

  std::string changed_input(const std::vector<Argument>& arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].tensor) continue;
      if (std::find(facts_.in_place.begin(), facts_.in_place.end(), arguments[i].name) != facts_.in_place.end())
        continue;
      const at::Tensor now = flat_span(tensor_at(candidate_->inputs(0).data(), placed_[i], judge_.settings_.device));
      if (!same_bytes(now, flat_span(*arguments[i].tensor))) return arguments[i].name;
    }
    return "";
  }

  static bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor left = a.contiguous().flatten(), right = b.contiguous().flatten();
    if (left.numel() != right.numel()) return false;
    return left.numel() == 0 || at::equal(left.view(at::kByte), right.view(at::kByte));
  }

  json run_candidate_on(const std::vector<Argument>& arguments, double seconds) {
    const json layouts = place(arguments);
    json reply = candidate_->ask({{"op", "run"}, {"arguments", layouts}}, seconds);
    if (reply.value("class", "") == "ok" && !reply.value("outputs", json()).is_array()) {
      throw CandidateLost{"crashed", "the process sent something else than its result"};
    }
    return reply;
  }

  // Copies the inputs into the arena, behind a random shift so that no address repeats.
  json place(const std::vector<Argument>& arguments) {
    std::size_t bytes = arena_alignment * (random_() % 16);
    json described = json::array();
    placed_.assign(arguments.size(), {});
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].tensor) {
        described.push_back({{"kind", "value"}, {"value", arguments[i].value}});
        continue;
      }
      placed_[i] = layout_of(*arguments[i].tensor);
      placed_[i].offset = bytes;
      bytes += align_up(placed_[i].bytes()) + arena_alignment;
      described.push_back(layout_to_json(placed_[i]));
    }
    Arena& arena = candidate_->inputs(bytes);
    arena.poison(bytes);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].tensor || arguments[i].tensor->numel() == 0) continue;
      flat_span(tensor_at(arena.data(), placed_[i], judge_.settings_.device)).copy_(flat_span(*arguments[i].tensor));
    }
    if (judge_.settings_.device >= 0) gpu::synchronise();
    return described;
  }

  std::string device_text() const {
    return judge_.settings_.device < 0 ? "cpu" : "cuda:" + std::to_string(judge_.settings_.device);
  }

  template <class F>
  auto in_python(F&& f) {
    const py::gil_scoped_acquire gil;
    try {
      return f();
    } catch (const py::error_already_set& error) {
      throw MachineFault("task " + order_.task + " (" + entry_->file + "): " + error.what());
    }
  }

  std::vector<Argument> draw_inputs(const std::string& name, const std::string& kind) {
    return in_python([&] {
      const py::list values = entry_->task.attr("inputs")(name, kind, draw_, device_text());
      const py::list names = entry_->task.attr("argument_names")(name, kind);
      const py::object dumps = py::module_::import("json").attr("dumps");
      std::vector<Argument> arguments;
      for (std::size_t i = 0; i < values.size(); ++i) {
        Argument argument;
        argument.name = names[i].cast<std::string>();
        if (THPVariable_Check(py::object(values[i]).ptr())) {
          argument.tensor = values[i].cast<at::Tensor>();
        } else {
          argument.value = json::parse(dumps(values[i]).cast<std::string>());
        }
        arguments.push_back(std::move(argument));
      }
      return arguments;
    });
  }

  std::vector<Expected> expect(const std::string& name, const std::string& kind) {
    return in_python([&] {
      const py::object task = entry_->task;
      const auto inputs = [&] { return task.attr("inputs")(name, kind, draw_, device_text()); };
      const py::list published = task.attr("reference")(inputs());
      const py::list exact = task.attr("reference_fp64")(inputs());
      const py::object scheme = task.attr("scheme_fp64")(inputs());
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

  bool has_outliers(const std::string& name) {
    return in_python([&] { return entry_->task.attr("has_outliers")(name).cast<bool>(); });
  }

  struct Cost {
    std::optional<double> bytes, flops;
    double reduction = 1;
  };
  Cost cost(const std::string& name, bool is_perf) {
    return in_python([&] {
      const py::tuple values = entry_->task.attr("cost")(name, is_perf);
      Cost result;
      if (!values[0].is_none()) result.bytes = values[0].cast<double>();
      if (!values[1].is_none()) result.flops = values[1].cast<double>();
      result.reduction = values[2].cast<double>();
      return result;
    });
  }
  double reduction_length(const std::string& name, bool is_perf) { return cost(name, is_perf).reduction; }

  void note_kernels(const json& reply) {
    const json& facts = reply.at("kernels");
    const int launches = facts.value("launches", 0);
    least_launches_ = least_launches_ ? std::min(*least_launches_, launches) : launches;
    for (const json& one : facts.at("kernels")) {
      integer_dot_ |= one.value("integer_dot", false);
      if (verdict_.exe.cases.empty()) {
        const auto number = [&](const char* key) -> std::optional<int> {
          return one.contains(key) && one[key].is_number_integer() ? std::optional(one[key].get<int>()) : std::nullopt;
        };
        verdict_.kernel.kernels.push_back(
            {one.value("name", ""), number("registers"), number("spills"), number("shared_bytes")});
      }
    }
    if (verdict_.exe.cases.empty()) verdict_.kernel.launches = launches;
  }

  void policy() {
    if (facts_.needs_triton && least_launches_.value_or(0) == 0 && verdict_.exe.failure_class != "not_run") {
      const bool ran = std::any_of(verdict_.exe.cases.begin(), verdict_.exe.cases.end(),
                                   [](const CaseVerdict& one) { return one.strict_ok; });
      if (!ran) return;  // nothing right to refuse
      verdict_.policy = {false, "not_a_kernel", "the entry launches no Triton kernel: torch computes in its place"};
    }
  }

  void perf() {
    PerfVerdict& perf = verdict_.perf;
    if (!verdict_.exe.strict_ok && !verdict_.exe.ok) {
      perf.reason = "the kernel is not correct";
      return;
    }
    if (!verdict_.policy.ok && !order_.policy_off) {
      perf.reason = "the policy refuses the kernel";
      return;
    }
    if (judge_.settings_.device < 0) {
      perf.status = "not_measured";
      perf.reason = "the cpu device does not time Triton kernels";
      return;
    }
    const auto start = Clock::now();
    std::vector<PairedCase> measured;
    PairingSettings settings;
    settings.max_seconds = judge_.settings_.perf_seconds_a_case;
    int syncs = 0, samples = 0;
    Cost total{0.0, 0.0, 1};
    double candidate_seconds = 0;
    stage_ = &perf.reason;
    for (const std::string& name : perf_names_) {
      case_in_progress_ = name + " (perf)";
      CaseVerdict at_scale = judge_case(name, "perf");
      if (!at_scale.strict_ok) {
        fail_at_scale(std::move(at_scale));
        return;
      }
      const PairedCase paired = time_case(name, settings, syncs, samples);
      const Cost one = cost(name, true);
      perf.cases.push_back({name, paired.baseline_ns, paired.candidate_ns, paired.speedup, paired.ci,
                            static_cast<int>(paired.quads.size()), 0, one.bytes, one.flops});
      if (one.bytes && total.bytes)
        *total.bytes += *one.bytes;
      else
        total.bytes.reset();
      if (one.flops && total.flops)
        *total.flops += *one.flops;
      else
        total.flops.reset();
      candidate_seconds += paired.candidate_ns * 1e-9;
      measured.push_back(paired);
    }
    case_in_progress_.clear();
    if (measured.empty()) {
      perf.status = "not_measured";
      perf.reason = "the task has no perf case";
      return;
    }
    perf.status = "measured";
    summarise(measured, settings, perf);
    if (total.bytes) perf.gbps = *total.bytes / candidate_seconds * 1e-9;
    if (total.flops) perf.tflops = *total.flops / candidate_seconds * 1e-12;
    if (2 * syncs > samples) verdict_.flags.push_back("needs_sync");
    perf.seconds = seconds_since(start);
  }

  void fail_at_scale(CaseVerdict at_scale) {
    ExeVerdict& exe = verdict_.exe;
    exe.ok = exe.ok && at_scale.ok;
    exe.strict_ok = false;
    exe.failure_class = "wrong_at_scale";
    exe.message = "case " + at_scale.name + " (perf): " + at_scale.failure_class + ": " + at_scale.message;
    exe.cases.push_back(std::move(at_scale));
    verdict_.perf = PerfVerdict();
    verdict_.perf.reason = "the kernel is not correct";
  }

  PairedCase time_case(const std::string& name, const PairingSettings& settings, int& syncs, int& samples) {
    const std::unique_lock alone(judge_.device_);
    const std::vector<Argument> arguments = draw_inputs(name, "perf");
    const json layouts = place(arguments);
    // Both sides read the same memory: pages of another allocation alone made up to 1.3 % (docs/measurements.md).
    py::object baseline = in_python([&] {
      py::list inputs = entry_->task.attr("inputs")(name, "perf", draw_, device_text());
      for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (!arguments[i].tensor) continue;
        inputs[i] = py::cast(tensor_at(candidate_->inputs(0).data(), placed_[i], judge_.settings_.device));
      }
      return py::object(entry_->task.attr("baseline")(inputs));
    });
    const FileLock machine(judge_.lock_.get());
    // The first calls of both sides compile, autotune and fill caches.
    constexpr int first_warm = 20, warm = 2;
    const auto time_baseline = [&](int warm_calls) {
      return in_python([&] { return judge_.timer_->measure([&] { baseline(); }, warm_calls).event_ns; });
    };
    const auto time_candidate = [&](int warm_calls) {
      const auto before = Clock::now();
      const json reply =
          candidate_->ask({{"op", "time"}, {"arguments", layouts}, {"warm", warm_calls}}, judge_.settings_.run_seconds);
      ++samples;
      syncs += reply.value("needs_sync", false) ? 1 : 0;
      const double claimed = reply.at("event_ns").get<double>();
      const double wall = seconds_since(before) * 1e9;
      // The candidate's clock is a claim, which the judge's own bounds.
      if (!(claimed > 0) || claimed > wall) throw CandidateLost{"crashed", "the process reported an impossible time"};
      return claimed;
    };
    PairedCase result;
    try {
      time_baseline(first_warm);
      time_candidate(first_warm);
      const auto start = Clock::now();
      result = measure_pairs(
          [&](int) {
            Quad quad;
            const bool baseline_first = (random_() & 1) != 0;
            if (baseline_first) quad.baseline_ns[0] = time_baseline(warm);
            quad.candidate_ns[0] = time_candidate(warm);
            if (!baseline_first) quad.baseline_ns[0] = time_baseline(warm);
            if (!baseline_first) quad.baseline_ns[1] = time_baseline(warm);
            quad.candidate_ns[1] = time_candidate(warm);
            if (baseline_first) quad.baseline_ns[1] = time_baseline(warm);
            return quad;
          },
          [&] { return seconds_since(start); }, settings);
    } catch (...) {
      in_python([&] { baseline = py::object(); });
      throw;
    }
    in_python([&] { baseline = py::object(); });
    return result;
  }

  class FileLock {
   public:
    explicit FileLock(int fd) : fd_(fd) {
      while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
      }
    }
    ~FileLock() { ::flock(fd_, LOCK_UN); }
    FileLock(const FileLock&) = delete;
    FileLock& operator=(const FileLock&) = delete;

   private:
    int fd_;
  };

  // The candidate is gone: the stage that was running failed.
  void lose(const CandidateLost& lost) {
    if (stage_ == &verdict_.call.failure_class || stage_ == nullptr) {
      fail_call(lost.failure_class, lost.message);
      return;
    }
    ExeVerdict& exe = verdict_.exe;
    CaseVerdict one;
    const std::size_t space = case_in_progress_.find(" (");
    one.name = case_in_progress_.substr(0, space);
    one.inputs = space == std::string::npos ? "standard"
                                            : case_in_progress_.substr(space + 2, case_in_progress_.size() - space - 3);
    one.failure_class = lost.failure_class;
    one.message = lost.message;
    if (stage_ == &verdict_.perf.reason) {
      fail_at_scale(std::move(one));
      return;
    }
    exe.cases.push_back(std::move(one));
    exe.ok = exe.strict_ok = false;
    exe.failure_class = lost.failure_class;
    exe.message = "case " + case_in_progress_ + ": " + lost.message;
    exe.seconds = seconds_since(exe_start_);
  }

  JudgeImpl& judge_;
  const EvaluationOrder& order_;
  std::mt19937_64 random_;
  TaskEntry* entry_ = nullptr;
  TaskFacts facts_;
  std::string draw_, detail_, case_in_progress_;
  std::vector<std::string> case_names_, perf_names_;
  Verdict verdict_;
  const std::string* stage_ = nullptr;  // the field of the stage in progress
  Clock::time_point exe_start_;
  std::unique_ptr<ScratchFolder> scratch_;  // outlives the candidate
  std::unique_ptr<CandidateHandle> candidate_;
  std::vector<TensorLayout> placed_;
  std::optional<std::vector<at::Tensor>> first_outputs_;
  std::vector<Expected> first_expected_;
  std::optional<int> least_launches_;
  bool integer_dot_ = false;
};

Verdict JudgeImpl::evaluate(const EvaluationOrder& order) {
  try {
    return Evaluation(*this, order).run();
  } catch (const MachineFault&) {
    throw;
  } catch (const json::exception&) {
    throw MachineFault("a message of the candidate had another shape");
  } catch (const c10::Error& error) {
    throw MachineFault(error.what_without_backtrace());
  } catch (const std::exception& error) {
    throw MachineFault(error.what());
  }
}

}  // namespace

std::unique_ptr<Judge> Judge::create(JudgeSettings settings, std::unique_ptr<ZygoteClient> zygote) {
  auto judge = std::make_unique<JudgeImpl>(std::move(settings), std::move(zygote));
  try {
    judge->start();
  } catch (const py::error_already_set& error) {
    throw std::runtime_error(error.what());
  }
  return judge;
}

}  // namespace anneal::evaluator
