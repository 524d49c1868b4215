#include "evaluator/daemon/judge.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <shared_mutex>
#include <sstream>
#include <thread>

#include "evaluator/daemon/arena.h"
#include "evaluator/daemon/candidate_handle.h"
#include "evaluator/daemon/compare.h"
#include "evaluator/daemon/feedback.h"
#include "evaluator/daemon/gpu.h"
#include "evaluator/daemon/pairing.h"
#include "evaluator/daemon/suite_task.h"
#include "evaluator/daemon/tensors.h"

namespace py = pybind11;

namespace anneal::evaluator {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

// Raised whenever a change could change a verdict: evaluations of another version are not found again.
constexpr int judge_version = 4;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

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

class JudgeImpl : public Judge {
 public:
  JudgeImpl(JudgeSettings settings, std::unique_ptr<ZygoteClient> zygote)
      : settings_(std::move(settings)), zygote_(std::move(zygote)) {}

  void start() {  // under the GIL
    for (auto& [id, task] : SuiteTask::read(settings_.suite, settings_.tasks_folder)) {
      tasks_.emplace(id, std::move(task));
    }
    const py::object torch = py::module_::import("torch");
    facts_.torch = torch.attr("__version__").attr("__str__")().cast<std::string>();
    facts_.triton = py::module_::import("triton").attr("__version__").cast<std::string>();
    facts_.python = py::module_::import("platform").attr("python_version")().cast<std::string>();
    // The references of fp32 convolutions must be fp32: cuDNN's default is TF32.
    torch.attr("backends").attr("cudnn").attr("allow_tf32") = false;
    if (settings_.device >= 0) {
      properties_ = gpu::open_device(settings_.device);
      facts_.device_name = properties_.name;
      facts_.driver = "CUDA " + std::to_string(properties_.driver_version / 1000) + "." +
                      std::to_string(properties_.driver_version % 1000 / 10);
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

  // One run at a time times on a GPU, across all anneal processes of the machine, of all its users: by the GPU's own
  // id, since CUDA_VISIBLE_DEVICES renumbers them.
  void open_lock() {
    const std::string path =
        (std::filesystem::temp_directory_path() / ("anneal-gpu-" + properties_.uuid + ".lock")).string();
    // Without O_CREAT first: a file of another user in a sticky folder must not be opened with it.
    lock_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!lock_) {
      lock_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
      if (!lock_) throw std::runtime_error("cannot open " + path + ": " + std::strerror(errno));
      ::fchmod(lock_.get(), 0666);  // whatever the umask; without it other users get the error above
    }
  }

  JudgeSettings settings_;
  std::unique_ptr<ZygoteClient> zygote_;
  JudgeFacts facts_;
  std::map<std::string, std::unique_ptr<SuiteTask>> tasks_;
  gpu::DeviceProperties properties_;
  std::unique_ptr<gpu::Timer> timer_;
  UniqueFd lock_;
  std::shared_mutex device_;  // building and checking share the device; timing holds it alone
};

// Held while timing: no other anneal process of the machine times on the same GPU.
class MachineLock {
 public:
  // Throws MachineFault when another process has held it for half an hour.
  explicit MachineLock(int fd) : fd_(fd) {
    constexpr auto most_wait = std::chrono::minutes(30);
    const auto start = Clock::now();
    while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EINTR && errno != EWOULDBLOCK) throw MachineFault(std::string("flock: ") + std::strerror(errno));
      if (Clock::now() - start > most_wait) {
        throw MachineFault("another process has been timing on this GPU for 30 minutes: see /tmp/anneal-gpu-*.lock");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  ~MachineLock() { ::flock(fd_, LOCK_UN); }
  MachineLock(const MachineLock&) = delete;
  MachineLock& operator=(const MachineLock&) = delete;

 private:
  int fd_;
};

// One evaluation, from code to verdict.
class Evaluation {
 public:
  Evaluation(JudgeImpl& judge, const EvaluationOrder& order)
      : judge_(judge), order_(order), order_perf_(order.perf), random_(entropy()) {}

  Verdict run() {
    prepare();
    try {
      if (screen()) {
        call();
        if (verdict_.call.ok && order_.exe) {
          exe();
          try {
            policy();
          } catch (const CandidateLost& lost) {
            refuse_policy("not_a_kernel", "without its Triton kernels it ends: " + lost.message, "decoy_kernel");
            if (order_.perf) verdict_.perf.reason = "the policy refuses the kernel";
            order_perf_ = false;
          }
          if (order_perf_) perf();
        }
      }
    } catch (const CandidateLost& lost) {
      lose(lost);
    } catch (const json::exception&) {
      lose({"crashed", "the process sent something else than its result"});
    }
    verdict_.accepted = verdict_.call.ok && verdict_.exe.strict_ok && verdict_.policy.ok;
    verdict_.feedback = feedback_text(verdict_, detail_);
    return std::move(verdict_);
  }

 private:
  void prepare() {
    const auto found = judge_.tasks_.find(order_.task);
    if (found == judge_.tasks_.end()) throw MachineFault("the suite has no task " + order_.task);
    task_ = found->second.get();
    rules_ = task_->rules();
    draw_ = hex(entropy()) + hex(entropy());
    verdict_.task = order_.task;
    verdict_.category = task_->category();
    verdict_.suite = judge_.settings_.suite;
    verdict_.device = judge_.settings_.device_text;
    verdict_.device_name = judge_.facts_.device_name;
    verdict_.settings_sha256 = judge_.facts_.settings_sha256;
    verdict_.draw = draw_;
    const py::gil_scoped_acquire gil;
    verdict_.code_sha256 = sha256(order_.code);
  }

  // Static screen. Syntax and entry are found by the candidate's process: the judge never parses hostile code.
  bool screen() {
    if (order_.code.find_first_not_of(" \t\r\n") == std::string::npos) {
      fail_call("missing_entry", "the submission is empty");
      return false;
    }
    if (!rules_.needs_integer_dot) return true;
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
    const std::optional<unsigned> user = next_candidate_user(judge_.zygote_->abilities());
    scratch_ = std::make_unique<ScratchFolder>(user);
    const std::string path = scratch_->path() + "/kernel_" + verdict_.code_sha256.substr(0, 16) + ".py";
    std::ofstream file(path);
    file << order_.code;
    file.close();
    if (!file) throw MachineFault("cannot write " + path);
    CandidateSettings settings;
    settings.device = judge_.settings_.device;
    settings.capability = judge_.settings_.capability;
    settings.sandbox = {{judge_.settings_.visible_folders, judge_.settings_.hidden_folders, scratch_->path()},
                        settings.device >= 0,
                        user.value_or(judge_.zygote_->abilities().own_user)};
    candidate_ = std::make_unique<CandidateHandle>(*judge_.zygote_, settings);
    if (!passed_scan(path)) {
      verdict_.call.seconds = seconds_since(start);
      return;
    }
    const auto shared = checking();
    const json loaded =
        candidate_->ask({{"op", "load"}, {"path", path}, {"entry", order_.task}}, judge_.settings_.call_seconds);
    if (passed_call(loaded)) {
      const double left = std::max(1.0, judge_.settings_.call_seconds - seconds_since(start));
      passed_call(
          run_candidate_on(task_->inputs(set_of(task_->case_names().front(), "standard"), device_text()), left));
    }
    verdict_.call.seconds = seconds_since(start);
    if (verdict_.call.failure_class == "not_run") {
      verdict_.call.ok = true;
      verdict_.call.failure_class = "ok";
    }
  }

  bool passed_scan(const std::string& path) {
    json scanned;
    try {
      scanned = candidate_->ask({{"op", "scan"}, {"path", path}}, judge_.settings_.call_seconds);
    } catch (const CandidateLost& lost) {  // the parser itself fell: nothing else has run
      if (lost.failure_class == "timeout") throw;
      fail_call("syntax_error", "the code is nested too deeply to be parsed");
      return false;
    }
    forbidden_ = scanned.at("forbidden").get<std::vector<std::string>>();
    if (!scanned.at("decoys").empty()) verdict_.flags.push_back("decoy_kernel");
    return passed_call(scanned);
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
    for (const std::string& name : task_->case_names()) {
      for (const char* kind : {"standard", "outlier"}) {
        if (std::strcmp(kind, "outlier") == 0 && !task_->has_outliers(name)) continue;
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
      if (!one.strict_ok && first == nullptr) first = &one;  // held-out cases come last
    }
    exe.failure_class = "ok";
    if (exe.strict_ok && rules_.needs_integer_dot && !integer_dot_) {
      exe.ok = exe.strict_ok = false;
      exe.failure_class = "not_quantized";
      exe.message = "no tl.dot of the compiled kernels takes int8 operands";
    } else if (first != nullptr && first->held_out) {
      exe.failure_class = "overfit";
      exe.message = "right on the cases that are shown, wrong on others of other sizes or values";
      detail_.clear();
    } else if (first != nullptr) {
      exe.failure_class = standard_failed ? first->failure_class : "outlier_only";
      exe.message = "case " + first->name + " (" + first->inputs + "): " + first->message;
    }
  }

  // Same values at fresh addresses: another answer is a race, or reads what nobody wrote.
  void repeat_first_case() {
    if (!first_outputs_ || !verdict_.exe.cases.front().strict_ok) return;
    const auto shared = checking();
    const InputSet first = set_of(task_->case_names().front(), "standard");
    const std::vector<Argument> arguments = task_->inputs(first, device_text());
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
      verdict.name = first.case_name;
      verdict.inputs = "standard";
      return;
    }
    bool same = true;
    for (std::size_t i = 0; i < outputs->size(); ++i) same &= same_bytes((*outputs)[i], (*first_outputs_)[i]);
    verdict_.exe.deterministic = same;
    if (same) return;
    again = compare_all(*outputs, first_expected_, first);
    if (!again.strict_ok) {
      again.name = first.case_name;
      again.inputs = "standard";
      again.failure_class = "race";
      verdict = again;
    }
  }

  // Every use of the device outside timing, the judge's own drawing and comparing included, shares it: work of another
  // evaluation on the judge's stream would be timed as the baseline's.
  [[nodiscard]] std::shared_lock<std::shared_mutex> checking() { return std::shared_lock(judge_.device_); }

  InputSet set_of(const std::string& name, const std::string& kind) const { return {name, kind, draw_}; }

  bool held_out(const InputSet& set) const { return set.kind != "perf" && task_->held_out(set.case_name); }

  CaseVerdict judge_case(const std::string& name, const std::string& kind) {
    const auto shared = checking();
    const InputSet set = set_of(name, kind);
    const std::vector<Argument> arguments = task_->inputs(set, device_text());
    const json reply = run_candidate_on(arguments, judge_.settings_.run_seconds);
    return judge_reply(reply, set, arguments);
  }

  // What the candidate answered to `arguments`, which are still in the arena.
  CaseVerdict judge_reply(const json& reply, const InputSet& set, const std::vector<Argument>& arguments) {
    CaseVerdict verdict;
    if (reply.value("class", "crashed") != "ok") {
      verdict.failure_class = reply.value("class", "crashed");
      verdict.message = reply.value("message", "");
      if (!held_out(set)) detail_ = reply.value("detail", "");
    } else {
      note_kernels(reply);
      // The reference runs only now, after the candidate.
      std::vector<Expected> expected = task_->expect(set, device_text());
      std::int64_t largest = largest_of(arguments);
      double output_bytes = 0;
      for (const Expected& one : expected) {
        largest = std::max(largest, one.published.numel());
        output_bytes += static_cast<double>(one.published.nbytes());
      }
      if (set.kind == "perf") perf_output_bytes_ = output_bytes;
      if (const std::string host = host_compute(reply.at("kernels").at("host_operators"), largest);
          !host.empty() && host_compute_.empty()) {
        host_compute_ = host + " in case " + set.case_name;
      }
      const std::optional<std::vector<at::Tensor>> outputs = collect(reply, arguments, expected, verdict);
      if (outputs) {
        verdict = compare_all(*outputs, expected, set);
        if (!first_outputs_ && set.kind == "standard") {
          first_outputs_ = *outputs;
          first_expected_ = std::move(expected);
        }
      }
    }
    verdict.name = set.case_name;
    verdict.inputs = set.kind;
    verdict.held_out = held_out(set);
    return verdict;
  }

  CaseVerdict compare_all(const std::vector<at::Tensor>& outputs, const std::vector<Expected>& expected,
                          const InputSet& set) {
    const ComparisonRule rule{rules_.kind, rules_.thresholds, task_->cost(set).reduction, rules_.error_growth};
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
    const std::size_t returned = expected.size() - rules_.in_place.size();
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
      try {  // its own description may be hostile
        layout = layout_from_json(one, std::numeric_limits<std::size_t>::max());
      } catch (const std::invalid_argument&) {
        return refuse("wrong_shape", "returned a tensor with impossible strides");
      }
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
    arena.poison(0, bytes);
    candidate_->ask({{"op", "collect"}, {"offsets", offsets}}, judge_.settings_.run_seconds);
    std::vector<at::Tensor> outputs;
    for (const TensorLayout& layout : layouts) {
      outputs.push_back(tensor_at(arena.data(), layout, judge_.settings_.device).clone());
    }
    for (const std::string& name : rules_.in_place) outputs.push_back(placed(name, arguments).clone());
    return outputs;
  }

  // What lies in the arena where argument `name` was put.
  at::Tensor placed(const std::string& name, const std::vector<Argument>& arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].name == name) {
        return in_place_of(i);
      }
    }
    throw MachineFault("task file " + task_->file() + ": in_place names " + name + ", which no case passes");
  }

  at::Tensor in_place_of(std::size_t argument) {
    return tensor_at(candidate_->inputs(0).data(), placed_[argument], judge_.settings_.device);
  }

  std::string changed_input(const std::vector<Argument>& arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].tensor) continue;
      if (std::find(rules_.in_place.begin(), rules_.in_place.end(), arguments[i].name) != rules_.in_place.end())
        continue;
      const at::Tensor now = flat_span(in_place_of(i));
      if (!same_bytes(now, flat_span(*arguments[i].tensor))) return arguments[i].name;
    }
    return "";
  }

  static bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor left = a.contiguous().flatten(), right = b.contiguous().flatten();
    if (left.numel() != right.numel()) return false;
    return left.numel() == 0 || at::equal(left.view(at::kByte), right.view(at::kByte));
  }

  json run_candidate_on(const std::vector<Argument>& arguments, double seconds, bool as_ghost = false) {
    const json layouts = place(candidate_->inputs(room_for(arguments)), arguments);
    json reply = candidate_->ask({{"op", "run"}, {"arguments", layouts}, {"ghost", as_ghost}}, seconds);
    if (reply.value("class", "") == "ok" && !reply.value("outputs", json()).is_array()) {
      throw CandidateLost{"crashed", "the process sent something else than its result"};
    }
    return reply;
  }

  static constexpr std::size_t most_shift = 16 * arena_alignment;

  static std::size_t room_for(const std::vector<Argument>& arguments) {
    std::size_t bytes = most_shift;
    for (const Argument& one : arguments) {
      if (one.tensor) bytes += align_up(layout_of(*one.tensor).bytes()) + arena_alignment;
    }
    return bytes;
  }

  // Copies the inputs into the arena from `base` on, behind a random shift so that no address repeats.
  json place(Arena& arena, const std::vector<Argument>& arguments, std::size_t base = 0) {
    std::size_t bytes = base + arena_alignment * (random_() % 16);
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
    arena.poison(base, bytes - base);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].tensor || arguments[i].tensor->numel() == 0) continue;
      flat_span(tensor_at(arena.data(), placed_[i], judge_.settings_.device)).copy_(flat_span(*arguments[i].tensor));
    }
    if (judge_.settings_.device >= 0) gpu::synchronise();
    return described;
  }

  // The same arguments as they lie in `arena`, where they were placed last. Baseline and candidate read the same
  // memory: pages of another allocation alone made up to 1.3 % (docs/measurements.md).
  std::vector<Argument> in_arena(Arena& arena, std::vector<Argument> arguments) const {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i].tensor) arguments[i].tensor = tensor_at(arena.data(), placed_[i], judge_.settings_.device);
    }
    return arguments;
  }

  std::string device_text() const {
    return judge_.settings_.device < 0 ? "cpu" : "cuda:" + std::to_string(judge_.settings_.device);
  }

  static std::int64_t largest_of(const std::vector<Argument>& arguments) {
    std::int64_t largest = 0;
    for (const Argument& one : arguments) {
      if (one.tensor) largest = std::max(largest, one.tensor->numel());
    }
    return largest;
  }

  // The first operator of torch that worked on a quarter or more of `largest` elements in one call of the entry, or
  // nothing. Sizes below 64 tell nothing.
  std::string host_compute(const json& operators, std::int64_t largest) const {
    constexpr std::int64_t least = 64;
    if (largest < least) return "";
    for (const auto& [name, elements] : operators.items()) {
      const auto& allowed = rules_.host_operators;
      if (std::find(allowed.begin(), allowed.end(), name) != allowed.end()) continue;
      if (elements.get<std::int64_t>() >= largest / 4) return name;
    }
    return "";
  }

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

  // Is it a kernel, or torch computing in its place? Asked of kernels that are right.
  void policy() {
    const bool right = std::any_of(verdict_.exe.cases.begin(), verdict_.exe.cases.end(),
                                   [](const CaseVerdict& one) { return one.strict_ok; });
    if (!right || !rules_.needs_triton) return;
    if (!forbidden_.empty()) {
      refuse_policy("forbidden_api", forbidden_.front(), "forbidden_api");
    } else if (least_launches_.value_or(0) == 0) {
      refuse_policy("not_a_kernel", "the entry launches no Triton kernel: torch computes in its place",
                    "no_triton_kernel");
    } else if (!host_compute_.empty()) {
      refuse_policy("not_a_kernel", "torch computes on whole tensors beside the kernel: " + host_compute_,
                    "torch_compute");
    } else if (verdict_.exe.strict_ok && launches_decoys()) {
      refuse_policy("not_a_kernel", "the answer is the same when its Triton kernels are not launched", "decoy_kernel");
    }
  }

  void refuse_policy(const char* failure_class, const std::string& message, const char* flag) {
    verdict_.policy = {false, failure_class, message};
    if (std::find(verdict_.flags.begin(), verdict_.flags.end(), flag) == verdict_.flags.end()) {
      verdict_.flags.push_back(flag);
    }
  }

  // With its kernels left out, the answer must change. Throws CandidateLost when the process ends over it.
  bool launches_decoys() {
    if (!first_outputs_) return false;
    const auto shared = checking();
    const InputSet first = set_of(task_->case_names().front(), "standard");
    const std::vector<Argument> arguments = task_->inputs(first, device_text());
    const json reply = run_candidate_on(arguments, judge_.settings_.run_seconds, true);
    if (reply.value("class", "") != "ok") return false;
    CaseVerdict unused;
    const std::optional<std::vector<at::Tensor>> outputs = collect(reply, arguments, first_expected_, unused);
    if (!outputs) return false;
    for (std::size_t i = 0; i < outputs->size(); ++i) {
      if (!same_bytes((*outputs)[i], (*first_outputs_)[i])) return false;
    }
    return true;
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
    PairingSettings settings;
    settings.max_seconds = judge_.settings_.perf_seconds_a_case;
    TimingNotes notes;
    std::vector<PairedCase> measured;
    std::optional<double> bytes = 0, flops = 0;
    double candidate_seconds = 0;
    stage_ = &perf.reason;
    for (const std::string& name : task_->perf_case_names()) {
      case_in_progress_ = name + " (perf)";
      CaseVerdict at_scale = judge_case(name, "perf");
      if (!passes(at_scale)) {
        fail_at_scale(std::move(at_scale));
        return;
      }
      std::optional<PairedCase> paired;
      try {
        paired = time_case(name, settings, notes);
      } catch (const TimingStopped& stopped) {
        verdict_.perf = PerfVerdict();
        perf.status = stopped.status;
        perf.reason = "case " + name + ": " + stopped.reason;
        if (stopped.too_slow) verdict_.flags.push_back("too_slow");
        return;
      }
      if (notes.wrong) {
        fail_at_scale(std::move(*notes.wrong));
        return;
      }
      const Cost cost = task_->cost(set_of(name, "perf"));
      perf.cases.push_back({name, paired->baseline_ns, paired->candidate_ns, paired->speedup, paired->ci,
                            static_cast<int>(paired->quads.size()), 0, cost.bytes, cost.flops});
      bytes = bytes && cost.bytes ? std::optional(*bytes + *cost.bytes) : std::nullopt;
      flops = flops && cost.flops ? std::optional(*flops + *cost.flops) : std::nullopt;
      candidate_seconds += paired->candidate_ns * 1e-9;
      measured.push_back(std::move(*paired));
    }
    case_in_progress_.clear();
    if (rules_.needs_triton && !notes.other_work.empty()) {
      refuse_policy("not_a_kernel", "in timed calls: " + notes.other_work, "torch_compute");
      if (!order_.policy_off) {
        perf = PerfVerdict();
        perf.reason = "the policy refuses the kernel";
        return;
      }
    }
    candidate_.reset();
    for (std::size_t i = 0; i < measured.size(); ++i) {
      const PairedCase& one = measured[i];
      const std::string name = perf.cases[i].name;
      const double alone = baseline_alone(name);
      // A short call's time is a matter of the process that it is made in (settings.short_kernel_spread).
      const double most = alone < settings.short_kernel_ns ? 1.10 : 1.05;
      if (one.baseline_ns > most * alone) {
        std::ostringstream text;
        text << std::setprecision(3) << "case " << name << ": the baseline took " << one.baseline_ns * 1e-3
             << " us beside the candidate and " << alone * 1e-3 << " us without it";
        perf = PerfVerdict();
        perf.status = "rejected";
        perf.reason = text.str();
        return;
      }
    }
    if (measured.empty()) {
      perf.status = "not_measured";
      perf.reason = "the task has no perf case";
      return;
    }
    perf.status = "measured";
    summarise(measured, settings, perf);
    if (bytes) perf.gbps = *bytes / candidate_seconds * 1e-9;
    if (flops) perf.tflops = *flops / candidate_seconds * 1e-12;
    if (2 * notes.syncs > notes.samples) verdict_.flags.push_back("needs_sync");
    if (2 * notes.side_streams > notes.samples) verdict_.flags.push_back("side_streams");
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

  // The rule that decides here: kernels that only the published one passes are timed to compare with published figures.
  bool passes(const CaseVerdict& one) const { return verdict_.exe.strict_ok ? one.strict_ok : one.ok; }

  struct TimingNotes {
    int samples = 0, syncs = 0, side_streams = 0;
    std::optional<CaseVerdict> wrong;  // the answer to a timed call was wrong
    std::string other_work;            // what did the work in a timed call, if not the candidate's kernels
  };

  // Why there is no time for a kernel that is correct.
  struct TimingStopped {
    std::string status, reason;
    bool too_slow = false;
  };

  // Every timed call of the candidate gets inputs that it has never seen: they lie in the arena as noise until its warm
  // calls are over. A random tenth of the timed answers and that of one more call are judged, so that a kernel which
  // remembers what it computed is refused.
  PairedCase time_case(const std::string& name, const PairingSettings& settings, TimingNotes& notes) {
    const std::unique_lock alone(judge_.device_);
    const MachineLock machine(judge_.lock_.get());
    // The first calls of both sides compile, autotune and fill caches; a slow kernel does fewer.
    constexpr int first_warm = 20, warm = 2;
    constexpr double most_warm_seconds = 1;
    constexpr unsigned judged_share = 10;
    const double floor_ns = fastest_ns(name);
    // Two sets of inputs in two places of the arena. Both sides warm up on the older and are timed on the newer one, in
    // the same memory: anything that only one of them does shows as up to 10 % (docs/measurements.md).
    struct Placed {
      InputSet set;
      std::vector<Argument> arguments;
      json layouts;
      std::optional<Baseline> baseline;
      std::size_t room = 0;  // bytes from the place's beginning
    };
    std::array<Placed, 2> places;
    int draws = 0, newer = 0;
    const auto renew = [&] {
      newer = 1 - newer;
      Placed& placed = places[newer];
      placed.set = {name, "perf", draw_ + "-" + std::to_string(draws++)};
      placed.arguments = task_->inputs(placed.set, device_text());
      placed.room = room_for(placed.arguments);
      candidate_->inputs(2 * placed.room);
      placed.layouts = place(candidate_->inputs(0), placed.arguments, newer * placed.room);
      placed.baseline = task_->baseline(in_arena(candidate_->inputs(0), placed.arguments));
    };
    const auto scramble = [&](std::uint64_t key) {
      gpu::scramble(candidate_->inputs(0).data() + newer * places[newer].room, places[newer].room, key);
    };
    const auto time_baseline = [&] {
      if (!rules_.in_place.empty()) renew();
      places[1 - newer].baseline->warm(*judge_.timer_, warm, most_warm_seconds);
      scramble(1);
      scramble(1);  // as the candidate's side does, and back
      return places[newer].baseline->measure(*judge_.timer_).event_ns;
    };
    const auto judge_timed = [&] {
      CaseVerdict timed = judge_reply(candidate_->ask({{"op", "outputs"}}, judge_.settings_.run_seconds),
                                      places[newer].set, places[newer].arguments);
      if (passes(timed)) return;
      timed.message = "the answer of a timed call: " + timed.message;
      notes.wrong = std::move(timed);
    };
    const auto time_candidate = [&](bool sure_to_be_judged) {
      renew();
      const std::uint64_t key = random_();
      scramble(key);
      candidate_->ask({{"op", "time"},
                       {"older", places[1 - newer].layouts},
                       {"arguments", places[newer].layouts},
                       {"calls", warm},
                       {"seconds", most_warm_seconds}},
                      judge_.settings_.run_seconds);
      const auto before = Clock::now();
      const json reply =
          candidate_->ask({{"offset", newer * places[newer].room}, {"bytes", places[newer].room}, {"key", key}},
                          judge_.settings_.run_seconds);
      const double wall = seconds_since(before) * 1e9;
      ++notes.samples;
      notes.syncs += reply.value("needs_sync", false) ? 1 : 0;
      notes.side_streams += reply.value("side_streams", false) ? 1 : 0;
      if (reply.value("launches", 0) == 0) notes.other_work = "no Triton kernel is launched";
      const std::string host = host_compute(reply.at("host_operators"), largest_of(places[newer].arguments));
      if (!host.empty()) notes.other_work = "torch computes on whole tensors: " + host;
      const double claimed = reply.at("event_ns").get<double>();
      // The candidate's clock is a claim: the judge's own bounds it from above, the memory's peak from below.
      if (!(claimed > 0) || claimed > wall) throw CandidateLost{"crashed", "the process reported an impossible time"};
      if (claimed < floor_ns) throw TimingStopped{"rejected", below_floor(claimed, floor_ns)};
      if (!notes.wrong && (sure_to_be_judged || random_() % judged_share == 0)) judge_timed();
      return claimed;
    };
    try {
      renew();
      renew();
      places[newer].baseline->warm(*judge_.timer_, first_warm, most_warm_seconds);
      candidate_->ask({{"op", "warm"},
                       {"arguments", places[1 - newer].layouts},
                       {"calls", first_warm},
                       {"seconds", most_warm_seconds}},
                      judge_.settings_.run_seconds);
      const auto start = Clock::now();
      const auto elapsed = [&] { return notes.wrong ? settings.max_seconds + 1 : seconds_since(start); };
      PairedCase paired = measure_pairs(
          [&](int) {
            Quad quad;
            const bool baseline_first = (random_() & 1) != 0;
            if (baseline_first) quad.baseline_ns[0] = time_baseline();
            quad.candidate_ns[0] = time_candidate(false);
            if (!baseline_first) {
              quad.baseline_ns[0] = time_baseline();
              quad.baseline_ns[1] = time_baseline();
            }
            quad.candidate_ns[1] = time_candidate(false);
            if (baseline_first) quad.baseline_ns[1] = time_baseline();
            return quad;
          },
          elapsed, settings);
      if (!notes.wrong) time_candidate(true);
      if (!notes.wrong && static_cast<int>(paired.quads.size()) < settings.few_quads) {
        throw TimingStopped{"not_measured",
                            "too slow to be timed: " + std::to_string(paired.quads.size()) + " pairs in " +
                                std::to_string(static_cast<int>(elapsed())) + " s",
                            true};
      }
      return paired;
    } catch (const CandidateLost& lost) {
      // A correct kernel that is too slow to be timed stays correct; one that fails at this size does not.
      if (lost.failure_class == "timeout") throw TimingStopped{"not_measured", lost.message, true};
      throw;
    }
  }

  // Median of 16 samples of the baseline when no candidate lives. Nothing else may disturb it either.
  double baseline_alone(const std::string& name) {
    const std::unique_lock alone(judge_.device_);
    const MachineLock machine(judge_.lock_.get());
    const std::vector<Argument> arguments = task_->inputs({name, "perf", draw_ + "-alone"}, device_text());
    const std::unique_ptr<Arena> arena = Arena::create(judge_.settings_.device, room_for(arguments));
    place(*arena, arguments);
    const Baseline baseline = task_->baseline(in_arena(*arena, arguments));
    baseline.warm(*judge_.timer_, 10, 0.5);
    std::array<double, 16> samples{};
    for (double& one : samples) {
      baseline.warm(*judge_.timer_, 2, 0.5);
      one = baseline.measure(*judge_.timer_).event_ns;
    }
    std::sort(samples.begin(), samples.end());
    return samples[samples.size() / 2];
  }

  // Reading what the semantics require and writing what the L2 cannot hold, at the memory's peak and 10 % (METRICS:
  // faster than 0.9 of the datasheet floor is rejected). Inputs are cold.
  double fastest_ns(const std::string& name) {
    const std::optional<double> bytes = task_->cost(set_of(name, "perf")).bytes;
    const double peak = judge_.properties_.peak_bytes_a_second;
    if (!bytes || peak <= 0) return 0;
    const double in_l2 = std::min(static_cast<double>(judge_.properties_.l2_bytes), perf_output_bytes_);
    return 0.9 * std::max(0.0, *bytes - in_l2) / peak * 1e9;
  }

  static std::string below_floor(double claimed, double floor_ns) {
    std::ostringstream text;
    text << std::setprecision(3) << claimed * 1e-3 << " us is less than the " << floor_ns * 1e-3
         << " us that the memory needs for the task's bytes";
    return text.str();
  }

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
  bool order_perf_;  // taken back when the candidate is gone before it could be timed
  std::mt19937_64 random_;
  SuiteTask* task_ = nullptr;
  TaskRules rules_;
  std::string draw_, detail_, case_in_progress_;
  std::vector<std::string> forbidden_;  // what the static screen found
  std::string host_compute_;            // the first operator of torch that did a kernel's work
  double perf_output_bytes_ = 0;        // of the perf case judged last
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
