#include "evaluator/daemon/judge.h"

#include <sys/random.h>
#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <map>
#include <optional>
#include <random>
#include <shared_mutex>
#include <sstream>

#include "evaluator/daemon/answer.h"
#include "evaluator/daemon/candidate_handle.h"
#include "evaluator/daemon/claims.h"
#include "evaluator/daemon/compare.h"
#include "evaluator/daemon/feedback.h"
#include "evaluator/daemon/gpu.h"
#include "evaluator/daemon/gpu_lock.h"
#include "evaluator/daemon/lint.h"
#include "evaluator/daemon/pairing.h"
#include "evaluator/daemon/placement.h"
#include "evaluator/daemon/scratch.h"
#include "evaluator/daemon/suite_task.h"
#include "evaluator/daemon/tensors.h"
#include "evaluator/daemon/timing.h"

namespace py = pybind11;

namespace anneal::evaluator {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

// Raised whenever a change could change a verdict: evaluations of another version are not found again.
constexpr int judge_version = 13;

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
      lock_.emplace(properties_.uuid);
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
                           {"perf_seconds_a_case", settings_.perf_seconds_a_case},
                           {"candidate_memory", zygote_->abilities().candidate_memory}};
    facts_.settings_sha256 = sha256(decisive.dump());
  }

  Verdict evaluate(const EvaluationOrder& order) override;
  LintReport lint(const std::string& task) override;
  const JudgeFacts& facts() const override { return facts_; }
  bool usable() const override { return !zygote_->stuck(); }

 private:
  friend class Evaluation;

  JudgeSettings settings_;
  std::unique_ptr<ZygoteClient> zygote_;
  JudgeFacts facts_;
  std::map<std::string, std::unique_ptr<SuiteTask>> tasks_;
  gpu::DeviceProperties properties_;
  std::unique_ptr<gpu::Timer> timer_;
  std::optional<GpuLock> lock_;
  std::shared_mutex device_;  // building and checking share the device; timing holds it alone
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
          policy();
          if (order_perf_) perf();
        }
      }
    } catch (const CandidateLost& lost) {
      lose(lost);
    } catch (const json::exception&) {
      lose({"crashed", "the process sent something else than its result"});
    }
    end_candidate();
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
    // Not yet on a GPU: there it has not been shown that no honest kernel fails by it.
    sealing_ = rules_.needs_triton && gpu::in_host_memory(judge_.settings_.device);
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

  // The rest of the screen, syntax and entry are the candidate's process' to find: the judge never parses hostile code.
  bool screen() {
    if (order_.code.find_first_not_of(" \t\r\n") == std::string::npos) {
      fail_call("missing_entry", "the submission is empty");
      return false;
    }
    return true;
  }

  // A fresh process in a fresh folder, which holds the kernel's file. Returns the file's path.
  std::string start_candidate() {
    candidate_.reset();
    const std::optional<unsigned> user = next_candidate_user(judge_.zygote_->abilities());
    scratch_ = std::make_unique<ScratchFolder>(judge_.settings_.run_folder, user);
    const std::string path = scratch_->path() + "/kernel_" + verdict_.code_sha256.substr(0, 16) + ".py";
    errno = 0;
    std::ofstream file(path);
    file << order_.code;
    file.close();
    if (!file) throw MachineFault("cannot write " + path + " (below TMPDIR): " + std::strerror(errno));
    CandidateSettings settings;
    settings.device = judge_.settings_.device;
    settings.capability = judge_.settings_.capability;
    settings.sandbox = {{judge_.settings_.visible_folders, judge_.settings_.hidden_folders, scratch_->path()},
                        !gpu::in_host_memory(settings.device),
                        user.value_or(judge_.zygote_->abilities().own_user)};
    candidate_ = std::make_unique<CandidateHandle>(*judge_.zygote_, settings);
    return path;
  }

  json load(const std::string& path) {
    return candidate_->ask({{"op", "load"}, {"path", path}, {"entry", order_.task}}, judge_.settings_.call_seconds);
  }

  void call() {
    const auto start = Clock::now();
    stage_ = &verdict_.call.failure_class;
    const std::string path = start_candidate();
    if (!passed_scan(path)) {
      verdict_.call.seconds = seconds_since(start);
      return;
    }
    const auto shared = checking();
    if (passed_call(load(path))) {
      const double left = std::max(1.0, judge_.settings_.call_seconds - seconds_since(start));
      passed_call(run_candidate_on(set_of(task_->case_names().front(), "standard"), left).reply);
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
      scanned = candidate_->ask(
          {{"op", "scan"}, {"path", path}, {"entry", order_.task}, {"integer_task", rules_.needs_integer_dot}},
          judge_.settings_.call_seconds);
    } catch (const CandidateLost& lost) {  // the parser itself fell: nothing else has run
      if (lost.failure_class != "crashed") throw;
      // Nothing of the kernel's has run: a process that leaves by itself could not read its own Python files.
      if (!lost.by_signal) {
        throw MachineFault(
            "the candidate could not screen the kernel (can every user read the evaluator's Python files?): " +
            lost.message);
      }
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
        verdict_.exe.cases.push_back(judge_case(name, kind));
      }
    }
    repeat_first_case();
    conclude_exe();
    if (verdict_.exe.strict_ok && rules_.needs_integer_dot) check_integer_dots();
    verdict_.exe.seconds = seconds_since(start);
  }

  static std::string where_of(const CaseVerdict& one) { return where({one.name, one.inputs, ""}); }

  void conclude_exe() {
    ExeVerdict& exe = verdict_.exe;
    exe.ok = exe.strict_ok = true;
    const CaseVerdict *first = nullptr, *unsupported = nullptr;  // held-out cases come last
    bool shown_pass = true, standard_pass = true;                // as a case that cannot be judged does not
    const CaseVerdict* beyond_published = nullptr;
    for (const CaseVerdict& one : exe.cases) {
      exe.ok &= one.ok;
      if (!one.ok && beyond_published == nullptr) beyond_published = &one;
      exe.strict_ok &= one.strict_ok;
      if (one.strict_ok) continue;
      shown_pass &= one.held_out;
      standard_pass &= one.inputs != "standard";
      if (one.failure_class == "unsupported_on_cpu") {
        if (unsupported == nullptr) unsupported = &one;
        continue;
      }
      if (first == nullptr) first = &one;
    }
    exe.failure_class = "ok";
    if (exe.strict_ok && rules_.needs_integer_dot && !integer_dot_) {
      fail_quantization("no tl.dot of the compiled kernels takes int8 operands");
    } else if (const auto distance = distance_of_other_quantization()) {
      fail_quantization(not_the_scheme(*distance));
    } else if (first != nullptr && first->held_out) {
      exe.failure_class = shown_pass ? "overfit" : first->failure_class;
      exe.message = shown_pass ? "right on the cases that are shown, wrong on others of other sizes or values"
                               : "in a case that is not shown";
      detail_.clear();
    } else if (first == nullptr && unsupported != nullptr) {  // nothing else speaks against it, so it is not judged
      exe.failure_class = unsupported->failure_class;
      exe.message =
          unsupported->held_out ? "in a case that is not shown" : where_of(*unsupported) + ": " + unsupported->message;
    } else if (first != nullptr) {
      exe.failure_class = standard_pass ? "outlier_only" : first->failure_class;
      exe.message = where_of(*first) + ": " + first->message;
    } else if (beyond_published != nullptr) {  // accepted: the strict rule decides, and tells rounding from a fault
      exe.message = beyond_published->held_out ? "in a case that is not shown" : where_of(*beyond_published);
      exe.message += ": " + beyond_published->message;
    }
  }

  void fail_quantization(const std::string& message) {
    verdict_.exe.ok = verdict_.exe.strict_ok = false;
    verdict_.exe.failure_class = "not_quantized";
    verdict_.exe.message = message;
  }

  // Of a kernel whose errors are about as large as quantization's and are not those of the task's scheme; else nothing.
  // It names the failure better than what a single case happens to fail for.
  std::optional<double> distance_of_other_quantization() const {
    const std::vector<CaseVerdict>& cases = verdict_.exe.cases;
    const std::optional<double> distance = pooled_scheme_distance(cases);
    if (!distance || *distance <= most_scheme_distance) return std::nullopt;
    const bool all_have_values =
        std::all_of(cases.begin(), cases.end(), [](const CaseVerdict& one) { return one.scheme_distance.has_value(); });
    const bool named = all_have_values && *distance <= most_quantization_distance;
    return named || verdict_.exe.strict_ok ? distance : std::nullopt;
  }

  // What speaks against the dots of one call; empty when nothing does. On the CPU, where they are counted, int8 dots
  // must multiply as many pairs of numbers as the product has, or they are not the product.
  std::string wrong_dots(const DotClaims& dots, const InputSet& set) {
    if (!dots.floating.empty()) return dots.floating + " holds a tl.dot of other operands than int8";
    const double needed = task_->cost(set).flops.value_or(0) / 2;
    const double products = dots.integer_products.value_or(needed);
    if (!dots.integer || products >= needed) return "";
    std::ostringstream text;
    text << "its int8 dots multiply " << products << " pairs of numbers where the product has " << needed;
    return text.str();
  }

  // The int8 dots must be what makes the answer: it must be wrong when they are left out.
  void check_integer_dots() {
    if (!first_outputs_) return;
    const auto shared = checking();
    const InputSet first = set_of(task_->case_names().front(), "standard");
    in_progress_ = first;
    const LeftOut left_out = leave_out("integer_dots", first);
    if (!left_out.end.empty()) return fail_quantization("without its int8 dots it ends: " + left_out.end);
    if (!left_out.answer || left_out.answer->refused()) return;
    if (compare_all(left_out.answer->outputs, first_expected_, first).strict_ok) {
      fail_quantization("the answer is as right when its int8 dots are left out: something else computes it");
    }
  }

  // Same values at fresh addresses: another answer is a race, or reads what nobody wrote.
  void repeat_first_case() {
    if (!first_outputs_ || !verdict_.exe.cases.front().strict_ok) return;
    const auto shared = checking();
    const InputSet first = set_of(task_->case_names().front(), "standard");
    in_progress_ = first;
    const auto [placed, reply] = run_candidate_on(first, judge_.settings_.run_seconds);
    CaseVerdict& verdict = verdict_.exe.cases.front();
    if (reply.value("class", "crashed") != "ok") {
      verdict.ok = verdict.strict_ok = false;
      verdict.failure_class = "race";
      verdict.message = "failed when run once more: " + reply.value("message", "");
      return;
    }
    const Answer answer = answer_to(placed, reply, first_expected_);
    if (answer.refused()) {
      verdict = CaseVerdict();
      verdict.name = first.case_name;
      verdict.inputs = "standard";
      verdict.failure_class = answer.failure_class;
      verdict.message = answer.message;
      return;
    }
    const bool same = same_as_first(answer);
    verdict_.exe.deterministic = same;
    if (same) return;
    CaseVerdict again = compare_all(answer.outputs, first_expected_, first);
    if (!again.strict_ok) {
      again.name = first.case_name;
      again.inputs = "standard";
      again.failure_class = "race";
      verdict = again;
    }
  }

  // A process that leaves the device disturbs what is timed meanwhile, as one that comes does.
  void end_candidate() {
    const auto shared = checking();
    candidate_.reset();
  }

  // Every use of the device outside timing, the judge's own drawing and comparing included, shares it: work of another
  // evaluation on the judge's stream would be timed as the baseline's.
  [[nodiscard]] std::shared_lock<std::shared_mutex> checking() { return std::shared_lock(judge_.device_); }

  InputSet set_of(const std::string& name, const std::string& kind) const { return {name, kind, draw_}; }

  bool held_out(const InputSet& set) const { return set.kind != "perf" && task_->held_out(set.case_name); }

  CaseVerdict judge_case(const std::string& name, const std::string& kind) {
    const auto shared = checking();
    const InputSet set = set_of(name, kind);
    in_progress_ = set;
    CaseVerdict verdict = judge_run(set, sealing_);
    if (!sealing_ || verdict.strict_ok || verdict.failure_class == "forbidden_api") return verdict;
    // Wrong where only kernels and the operators that are counted see true values. Is it right without that?
    detail_.clear();
    verdict = judge_run(set, false);
    if (!verdict.strict_ok) {
      sealing_ = false;  // it is wrong by itself, and never accepted
    } else if (judge_run(set, true).strict_ok) {
      verdict.ok = verdict.strict_ok = false;
      verdict.failure_class = "race";
      verdict.message = "right in one run and wrong in another";
    } else if (hidden_work_.empty()) {
      hidden_work_ = held_out(set) ? "in a case that is not shown" : "in case " + set.case_name;
    }
    return verdict;
  }

  CaseVerdict judge_run(const InputSet& set, bool sealed) {
    // Sealed, all memory is copied at every launch.
    const double seconds = (sealed ? 3 : 1) * judge_.settings_.run_seconds;
    const auto [placed, reply] = run_candidate_on(set, seconds, "nothing", sealed);
    return judge_reply(reply, set, placed, sealed);
  }

  // What the candidate answered to a call on `placed`, which is still in the arena.
  CaseVerdict judge_reply(const json& reply, const InputSet& set, const PlacedArguments& placed, bool sealed = false) {
    CaseVerdict verdict;
    if (reply.value("class", "crashed") != "ok") {
      verdict.failure_class = reply.value("class", "crashed");
      verdict.message = reply.value("message", "");
      if (!held_out(set)) detail_ = reply.value("detail", "");
    } else {
      note_kernels(reply);
      // The reference runs only now, after the candidate.
      std::vector<Expected> expected = task_->expect(set, device_text());
      std::int64_t largest = largest_of(placed.arguments);
      double output_bytes = 0;
      for (const Expected& one : expected) {
        largest = std::max(largest, one.published.numel());
        output_bytes += static_cast<double>(one.published.nbytes());
      }
      if (set.kind == "perf") {
        at_scale_ = {output_bytes, largest};
      }
      if (const std::string host =
              host_compute(reply.at("kernels").at("host_operators"), largest, rules_.host_operators);
          !host.empty() && host_compute_.empty()) {
        host_compute_ = host + (held_out(set) ? " in a case that is not shown" : " in case " + set.case_name);
      }
      Answer answer = answer_to(placed, reply, expected);
      if (answer.refused()) {
        verdict.failure_class = answer.failure_class;
        verdict.message = answer.message;
      } else {
        verdict = compare_all(answer.outputs, expected, set);
        if (verdict.ok && rules_.needs_integer_dot) {
          verdict.message = wrong_dots(launch_claims(reply.at("kernels")).dots, set);
          if (!verdict.message.empty()) {
            verdict.ok = verdict.strict_ok = false;
            verdict.failure_class = "not_quantized";
          }
        }
        if (!first_outputs_ && set.kind == "standard" && (verdict.strict_ok || !sealed)) {
          first_outputs_ = std::move(answer.outputs);
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

  struct Run {
    PlacedArguments placed;
    json reply;
  };

  // Draws the inputs, puts them into the candidate's arena and has them answered.
  Run run_candidate_on(const InputSet& set, double seconds, const char* left_out = "nothing", bool sealed = false) {
    std::vector<Argument> arguments = task_->inputs(set, device_text());
    Arena& arena = candidate_->inputs(room_for(arguments));
    candidate_->ask({{"op", "release"}}, seconds);
    Run run{place(arena, std::move(arguments), 0, random_() % most_shift, judge_.settings_.device), {}};
    run.reply = candidate_->ask(
        {{"op", "run"}, {"arguments", run.placed.described}, {"left_out", left_out}, {"sealed", sealed}}, seconds);
    if (run.reply.value("class", "") == "ok" && !run.reply.value("outputs", json()).is_array()) {
      throw CandidateLost{"crashed", "the process sent something else than its result"};
    }
    return run;
  }

  // In a process that start_candidate() has just started, not the kernel's first. Throws CandidateLost when it fails.
  void make_first_call(const std::string& path, const InputSet& first) {
    json reply = load(path);
    if (reply.value("class", "") == "ok") reply = run_candidate_on(first, judge_.settings_.call_seconds).reply;
    if (reply.value("class", "") == "ok") return;
    throw CandidateLost{reply.value("class", "crashed"),
                        "in another process of the same kernel: " + reply.value("message", "")};
  }

  struct LeftOut {
    std::optional<Answer> answer;  // none of a call that failed
    std::string end;               // how the process ended, if it did
  };

  // The first case without its kernels or its int8 dots. That the process ends over it is held against the kernel, but
  // time and memory may be short by the machine's doing: they must be again, in a fresh process that has just answered
  // the case as it is. Throws CandidateLost when it has not.
  LeftOut leave_out(const char* what, const InputSet& first) {
    const auto answer = [&]() -> LeftOut {
      const auto [placed, reply] = run_candidate_on(first, judge_.settings_.run_seconds, what);
      if (reply.value("class", "") != "ok") return {};
      return {answer_to(placed, reply, first_expected_), ""};
    };
    try {
      return answer();
    } catch (const CandidateLost& lost) {
      if (lost.failure_class != "timeout" && lost.failure_class != "out_of_memory") return {std::nullopt, lost.message};
    }
    make_first_call(start_candidate(), first);
    try {
      return answer();
    } catch (const CandidateLost& lost) {
      return {std::nullopt, lost.message};
    }
  }

  Answer answer_to(const PlacedArguments& placed, const json& reply, const std::vector<Expected>& expected) {
    return collect(*candidate_, reply, placed, expected, *task_, judge_.settings_.device, judge_.settings_.run_seconds);
  }

  bool same_as_first(const Answer& answer) const {
    return std::equal(answer.outputs.begin(), answer.outputs.end(), first_outputs_->begin(), first_outputs_->end(),
                      same_bytes);
  }

  std::string device_text() const { return torch_device(judge_.settings_.device).str(); }

  void note_kernels(const json& reply) {
    LaunchClaims claims = launch_claims(reply.at("kernels"));
    least_launches_ = least_launches_ ? std::min(*least_launches_, claims.launches) : claims.launches;
    integer_dot_ |= claims.dots.integer;
    if (!verdict_.exe.cases.empty()) return;
    verdict_.kernel.launches = claims.launches;
    verdict_.kernel.kernels = std::move(claims.kernels);
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
    } else if (!hidden_work_.empty()) {
      refuse_policy("not_a_kernel",
                    "wrong " + hidden_work_ +
                        " while only its kernels and the torch operators that are seen have the true values: something "
                        "else computes beside them",
                    "hidden_compute");
    } else if (verdict_.exe.strict_ok) {
      refuse_decoys();
    }
  }

  void refuse_policy(const char* failure_class, const std::string& message, const char* flag) {
    verdict_.policy = {false, failure_class, message};
    if (std::find(verdict_.flags.begin(), verdict_.flags.end(), flag) == verdict_.flags.end()) {
      verdict_.flags.push_back(flag);
    }
  }

  // With its kernels left out, the answer must change, and there must be one.
  void refuse_decoys() {
    if (!first_outputs_) return;
    const auto shared = checking();
    const InputSet first = set_of(task_->case_names().front(), "standard");
    in_progress_ = first;
    const LeftOut left_out = leave_out("kernels", first);
    if (!left_out.end.empty()) {
      refuse_policy("not_a_kernel", "without its Triton kernels it ends: " + left_out.end, "decoy_kernel");
      if (order_.perf) verdict_.perf.reason = "the policy refuses the kernel";
      order_perf_ = false;
      return;
    }
    if (!left_out.answer || left_out.answer->refused() || !same_as_first(*left_out.answer)) return;
    refuse_policy("not_a_kernel", "the answer is the same when its Triton kernels are not launched", "decoy_kernel");
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
    perf_start_ = Clock::now();
    if (judge_.settings_.device < 0) {
      stop_perf("not_measured", "the cpu device does not time Triton kernels");
      return;
    }
    PairingSettings settings;
    settings.max_seconds = judge_.settings_.perf_seconds_a_case;
    stage_ = &perf.reason;
    std::vector<PairedCase> measured;
    std::optional<double> bytes = 0, flops = 0;
    double candidate_seconds = 0;
    for (const std::string& name : task_->perf_case_names()) {
      const Cost cost = task_->cost(set_of(name, "perf"));
      std::optional<PairedCase> timed = time_at_scale(name, cost, settings);
      if (!timed) return;
      const PairedCase& paired = measured.emplace_back(std::move(*timed));
      perf.cases.push_back({name, paired.baseline_ns, paired.candidate_ns, paired.speedup, paired.ci,
                            static_cast<int>(paired.quads.size()), 0, cost.bytes, cost.flops});
      bytes = bytes && cost.bytes ? std::optional(*bytes + *cost.bytes) : std::nullopt;
      flops = flops && cost.flops ? std::optional(*flops + *cost.flops) : std::nullopt;
      candidate_seconds += paired.candidate_ns * 1e-9;
    }
    if (refuse_other_work()) return;
    end_candidate();
    for (const PerfCase& one : perf.cases) {
      const std::string slowed = slowed_baseline(one, settings);
      if (slowed.empty()) continue;
      stop_perf("rejected", slowed);
      return;
    }
    if (measured.empty()) {
      stop_perf("not_measured", "the task has no perf case");
      return;
    }
    perf.status = "measured";
    summarise(measured, settings, perf);
    if (bytes) perf.gbps = *bytes / candidate_seconds * 1e-9;
    if (flops) perf.tflops = *flops / candidate_seconds * 1e-12;
    if (2 * syncs_ > samples_) verdict_.flags.push_back("needs_sync");
    if (2 * side_streams_ > samples_) verdict_.flags.push_back("side_streams");
    perf.seconds = seconds_since(perf_start_);
  }

  // One perf case, judged and then timed. Nothing when that ended the stage.
  std::optional<PairedCase> time_at_scale(const std::string& name, const Cost& cost, const PairingSettings& settings) {
    CaseVerdict at_scale = judge_case(name, "perf");
    if (!passes(at_scale)) {
      fail_at_scale(std::move(at_scale));
      return std::nullopt;
    }
    in_progress_ = set_of(name, "perf");
    TimedCase timed;
    try {
      timed = time(in_progress_, cost, settings);
    } catch (const TimingStopped& stopped) {
      if (other_work_.empty()) other_work_ = stopped.other_work;
      if (refuse_other_work()) return std::nullopt;
      stop_perf(stopped.status, "case " + name + ": " + stopped.reason);
      if (stopped.too_slow) verdict_.flags.push_back("too_slow");
      return std::nullopt;
    }
    if (timed.wrong) {
      fail_at_scale(std::move(*timed.wrong));
      return std::nullopt;
    }
    if (other_work_.empty()) other_work_ = timed.other_work;
    samples_ += timed.samples;
    syncs_ += timed.syncs;
    side_streams_ += timed.side_streams;
    return std::move(timed.paired);
  }

  // What timed calls showed that the cases did not. Whether that ends perf.
  bool refuse_other_work() {
    if (!rules_.needs_triton || other_work_.empty()) return false;
    refuse_policy("not_a_kernel", "in timed calls: " + other_work_, "torch_compute");
    if (order_.policy_off) return false;
    stop_perf("skipped", "the policy refuses the kernel");
    return true;
  }

  TimedCase time(const InputSet& perf_case, const Cost& cost, const PairingSettings& settings) {
    const std::unique_lock alone(judge_.device_);
    const GpuLock::Held machine = judge_.lock_->hold();
    return time_case({*task_, *candidate_, *judge_.timer_, judge_.settings_.device, perf_case, at_scale_.largest,
                      fastest_ns(cost.bytes, at_scale_.output_bytes, judge_.properties_), judge_.settings_.run_seconds,
                      settings, random_,
                      [this](const json& reply, const InputSet& set, const PlacedArguments& placed) {
                        return judge_reply(reply, set, placed);
                      },
                      [this](const CaseVerdict& one) { return passes(one); }});
  }

  // How much slower the baseline ran beside the candidate, now that it is gone; empty when it did not. Where its inputs
  // lie moves a baseline of several kernels by 5 % (docs/measurements.md), so that the slowest of three draws counts.
  std::string slowed_baseline(const PerfCase& one, const PairingSettings& settings) {
    double alone_ns = 0;
    for (int draw = 0; draw < 3; ++draw) {
      InputSet set = set_of(one.name, "perf");
      set.draw += "-alone-" + std::to_string(draw);
      {
        const std::unique_lock alone(judge_.device_);
        const GpuLock::Held machine = judge_.lock_->hold();
        alone_ns = std::max(alone_ns, time_baseline_alone(*task_, set, *judge_.timer_, judge_.settings_.device));
      }
      // A short call's time is a matter of the process that it is made in (settings.short_kernel_spread).
      const double most = alone_ns < settings.short_kernel_ns ? 1.10 : 1.05;
      if (one.baseline_ns <= most * alone_ns) return "";
    }
    std::ostringstream text;
    text << std::setprecision(3) << "case " << one.name << ": the baseline took " << one.baseline_ns * 1e-3
         << " us beside the candidate and " << alone_ns * 1e-3 << " us without it";
    return text.str();
  }

  void stop_perf(const std::string& status, const std::string& reason) {
    verdict_.perf = PerfVerdict();
    verdict_.perf.status = status;
    verdict_.perf.reason = reason;
    verdict_.perf.seconds = seconds_since(perf_start_);
  }

  void fail_at_scale(CaseVerdict at_scale) {
    ExeVerdict& exe = verdict_.exe;
    exe.ok = exe.ok && at_scale.ok;
    exe.strict_ok = false;
    exe.failure_class = "wrong_at_scale";
    exe.message = "case " + at_scale.name + " (perf): " + at_scale.failure_class + ": " + at_scale.message;
    exe.cases.push_back(std::move(at_scale));
    stop_perf("skipped", "the kernel is not correct");
  }

  // The rule that decides here: kernels that only the published one passes are timed to compare with published figures.
  bool passes(const CaseVerdict& one) const { return verdict_.exe.strict_ok ? one.strict_ok : one.ok; }

  // The candidate is gone: the stage that was running failed.
  void lose(const CandidateLost& lost) {
    if (stage_ == &verdict_.call.failure_class || stage_ == nullptr) {
      fail_call(lost.failure_class, lost.message);
      return;
    }
    ExeVerdict& exe = verdict_.exe;
    CaseVerdict one;
    one.name = in_progress_.case_name;
    one.inputs = in_progress_.kind;
    one.held_out = held_out(in_progress_);
    one.failure_class = lost.failure_class;
    one.message = lost.message;
    if (stage_ == &verdict_.perf.reason) {
      fail_at_scale(std::move(one));
      return;
    }
    exe.seconds = seconds_since(exe_start_);
    const bool again =
        !exe.cases.empty() && exe.cases.front().name == one.name && exe.cases.front().inputs == one.inputs;
    if (again) {
      exe.cases.front() = one;
    } else {
      exe.cases.push_back(one);
    }
    if (one.held_out) {
      conclude_exe();
      return;
    }
    exe.ok = exe.strict_ok = false;
    exe.failure_class = lost.failure_class;
    exe.message = where(in_progress_) + (again ? ", run once more: " : ": ") + lost.message;
  }

  JudgeImpl& judge_;
  const EvaluationOrder& order_;
  bool order_perf_;  // taken back when the candidate is gone before it could be timed
  std::mt19937_64 random_;
  SuiteTask* task_ = nullptr;
  TaskRules rules_;
  std::string draw_, detail_;
  InputSet in_progress_;                // of the exe or perf case that the candidate is working on
  std::vector<std::string> forbidden_;  // what the static screen found
  std::string host_compute_;            // the first operator of torch that did a kernel's work
  struct AtScale {
    double output_bytes = 0;
    std::int64_t largest = 0;                       // elements of the largest tensor
  } at_scale_;                                      // of the perf case judged last, which is timed next
  bool sealing_ = false;                            // until a case is wrong without it
  std::string hidden_work_;                         // where a case is wrong only while sealed (seal.py)
  std::string other_work_;                          // what did the work in a timed call, if not the candidate's kernels
  int samples_ = 0, syncs_ = 0, side_streams_ = 0;  // as in TimedCase, of all timed cases
  Verdict verdict_;
  const std::string* stage_ = nullptr;  // the field of the stage in progress
  Clock::time_point exe_start_, perf_start_;
  std::unique_ptr<ScratchFolder> scratch_;  // outlives the candidate
  std::unique_ptr<CandidateHandle> candidate_;
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

LintReport JudgeImpl::lint(const std::string& task) {
  const auto found = tasks_.find(task);
  if (found == tasks_.end()) throw MachineFault("the suite has no task " + task);
  const std::shared_lock shared(device_);
  return lint_task(*found->second, task, settings_.device_text);
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
