#include "evaluator/daemon/candidate.h"

#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "evaluator/daemon/arena.h"
#include "evaluator/daemon/gpu.h"
#include "evaluator/daemon/held_blocks.h"
#include "evaluator/daemon/tensors.h"

namespace py = pybind11;

namespace anneal::evaluator {

namespace {

using nlohmann::json;

void set_environment(const CandidateSettings& settings) {
  // The zygote's environment came from the judge's, which has no keys; this is a second wall.
  const std::map<std::string, std::string> kept = {
      {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
      {"HOME", settings.sandbox.files.scratch},
      {"TMPDIR", settings.sandbox.files.scratch},
      {"TRITON_CACHE_DIR", settings.sandbox.files.scratch + "/triton"},
      {"TORCH_EXTENSIONS_DIR", settings.sandbox.files.scratch + "/extensions"},
      {"CUDA_CACHE_PATH", settings.sandbox.files.scratch + "/cuda"},
      {"USER", "candidate"},  // its uid has no name
      {"LANG", "C.UTF-8"}};
  py::object environment = py::module_::import("os").attr("environ");
  const char* libraries = std::getenv("LD_LIBRARY_PATH");
  const std::string library_path = libraries != nullptr ? libraries : "";
  environment.attr("clear")();
  for (const auto& [name, value] : kept) environment[py::str(name)] = py::str(value);
  if (!library_path.empty()) environment["LD_LIBRARY_PATH"] = py::str(library_path);
}

class CandidateProcess {
 public:
  CandidateProcess(const CandidateSettings& settings, Channel channel)
      : device_(settings.device), capability_(settings.capability), channel_(std::move(channel)) {}

  void serve() {
    for (;;) {
      json request;
      std::vector<UniqueFd> descriptors;
      if (channel_.receive(request, no_deadline, &descriptors) != Channel::Status::ok) return;
      channel_.send(answer(request, descriptors), no_deadline);
    }
  }

 private:
  json answer(const json& request, std::vector<UniqueFd>& descriptors) {
    const std::string op = request.at("op").get<std::string>();
    if (op == "scan") return scan(request);
    if (op == "load") return load(request);
    if (op == "arena") return map_arena(request, descriptors);
    if (op == "run") return run(request);
    if (op == "release") return release();
    if (op == "collect") return collect(request);
    if (op == "warm") return of_kernel([&] { return warm(request); });
    if (op == "time") return of_kernel([&] { return time(request); });
    if (op == "outputs") return described(timed_);
    throw std::invalid_argument("unknown message " + op);
  }

  json scan(const json& request) {
    const py::object screen = py::module_::import("anneal_eval.screen").attr("screen");
    return json::parse(screen(request.at("path").get<std::string>(), request.at("entry").get<std::string>(),
                              request.at("integer_task").get<bool>())
                           .cast<std::string>());
  }

  json load(const json& request) {
    runner_ = py::module_::import("anneal_eval.candidate")
                  .attr("Candidate")(request.at("path").get<std::string>(), request.at("entry").get<std::string>(),
                                     gpu::in_host_memory(device_) ? "cpu" : "cuda", capability_);
    streams_ = runner_.attr("other_streams")().cast<std::vector<std::uintptr_t>>();
    return json::parse(runner_.attr("load")().cast<std::string>());
  }

  json map_arena(const json& request, std::vector<UniqueFd>& descriptors) {
    auto arena = Arena::open(device_, std::move(descriptors.at(0)), request.at("bytes").get<std::size_t>());
    (request.at("role") == "inputs" ? inputs_ : outputs_arena_) = std::move(arena);
    return json::object();
  }

  py::list arguments_from(const json& request, const char* field) {
    py::list arguments;
    py::object loads = py::module_::import("json").attr("loads");
    for (const json& one : request.at(field)) {
      if (one.at("kind") == "tensor") {
        arguments.append(py::cast(tensor_at(inputs_->data(), layout_from_json(one, inputs_->bytes()), device_)));
      } else {
        arguments.append(loads(one.at("value").dump()));
      }
    }
    return arguments;
  }

  json run(const json& request) {
    held_arguments_ = arguments_from(request, "arguments");
    return described(
        runner_.attr("call")(held_arguments_, request.value("left_out", "nothing"), request.value("sealed", false)));
  }

  // Lets go of the last call's arguments and answer, before new inputs lie in the arena: what hangs on them may run
  // code.
  json release() {
    outputs_.clear();
    held_arguments_ = py::list();
    runner_.attr("collect_garbage")();
    return json::object();
  }

  // `answered`: (outcome as JSON text, list of outputs), as Candidate.call returns it.
  json described(const py::tuple& answered) {
    outputs_.clear();
    json reply = json::parse(answered[0].cast<std::string>());
    json outputs = json::array();
    if (reply.at("class") == "ok") {
      for (const py::handle output : answered[1].cast<py::list>()) outputs.push_back(describe(output));
    }
    reply["outputs"] = outputs;
    reply["kernels"] = json::parse(runner_.attr("kernels")().cast<std::string>());
    return reply;
  }

  // What structure the output has. The judge checks values itself, from the copied bytes.
  json describe(py::handle output) {
    const py::object tensor_type = py::module_::import("torch").attr("Tensor");
    if (!py::type::of(output).is(tensor_type)) {
      outputs_.emplace_back();
      return {{"kind", "other"}, {"type", py::type::of(output).attr("__name__").cast<std::string>()}};
    }
    at::Tensor tensor = output.cast<at::Tensor>();
    json object = layout_to_json(layout_of(tensor));
    object["device"] = tensor.device().str();
    object["plain"] = tensor.layout() == at::kStrided && !tensor.is_quantized();
    const auto* begin = static_cast<const std::byte*>(tensor.const_data_ptr());
    object["aliases_input"] =
        tensor.numel() > 0 && begin >= inputs_->data() && begin < inputs_->data() + inputs_->bytes();
    outputs_.push_back(std::move(tensor));
    return object;
  }

  json collect(const json& request) {
    const json& offsets = request.at("offsets");
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const at::Tensor& output = outputs_[i];
      if (!output.defined() || output.numel() == 0) continue;
      TensorLayout layout = layout_of(at::empty(output.sizes(), output.options().device(at::kMeta)));
      layout.offset = offsets.at(i).get<std::size_t>();
      tensor_at(outputs_arena_->data(), layout, device_).copy_(output);
    }
    if (device_ >= 0) gpu::synchronise();
    return json::object();
  }

  gpu::Timer& timer() {
    if (timer_ == nullptr) timer_ = gpu::Timer::create(device_, streams_);
    return *timer_;
  }

  // What `work` answers, or the outcome that the kernel's own exception makes, as `run` would tell it. CUDA's errors
  // are the kernel's too: nothing else runs in this process.
  template <class Work>
  json of_kernel(const Work& work) {
    py::object raised;
    try {
      return work();
    } catch (const py::error_already_set& error) {
      raised = error.value();
    } catch (const std::runtime_error& error) {
      raised = py::module_::import("builtins").attr("RuntimeError")(error.what());
    } catch (const c10::Error& error) {
      raised = py::module_::import("builtins").attr("RuntimeError")(error.what_without_backtrace());
    }
    return json::parse(runner_.attr("failure")(raised).cast<std::string>());
  }

  json warm(const json& request) {
    held_arguments_ = arguments_from(request, "arguments");
    const py::object timed = runner_.attr("timed");
    runner_.attr("collect_garbage")();
    if (request.value("tune", false)) runner_.attr("forget_tuning")();
    timer().warm([&] { timed(held_arguments_); }, request.at("calls").get<int>(), request.at("seconds").get<double>());
    return json::object();
  }

  json time(const json& request) {
    timed_ = py::tuple();
    const py::list older = arguments_from(request, "older"), arguments = arguments_from(request, "arguments");
    held_arguments_ = older + arguments;
    const py::object timed = runner_.attr("timed");
    runner_.attr("collect_garbage")(0);  // all of it would take 10 ms a sample
    held_.renew(device_, request.at("held").get<std::uint64_t>());
    timer().warm([&] { timed(older); }, request.at("calls").get<int>(), request.at("seconds").get<double>());
    // Until now the arguments were noise. The key comes when the candidate's code has stopped.
    if (channel_.send({{"warmed", true}}, no_deadline) != Channel::Status::ok) ::_exit(1);
    json key;
    if (channel_.receive(key, no_deadline) != Channel::Status::ok) ::_exit(1);
    const auto offset = key.at("offset").get<std::size_t>(), bytes = key.at("bytes").get<std::size_t>();
    if (offset > inputs_->bytes() || bytes > inputs_->bytes() - offset) throw std::invalid_argument("key");
    gpu::scramble(inputs_->data() + offset, bytes, key.at("key").get<std::uint64_t>());
    py::object result;
    const auto sample = timer().measure([&] { result = timed(arguments); });
    timed_ = runner_.attr("answered")(result);
    return {{"event_ns", sample.event_ns + sample.after_ns},
            {"needs_sync", sample.needs_sync},
            {"side_streams", sample.side_streams},
            {"launches", py::len(runner_.attr("launches"))},
            {"host_operators", json::parse(runner_.attr("host_operators")().cast<std::string>())}};
  }

  int device_, capability_;
  Channel channel_;
  std::unique_ptr<Arena> inputs_, outputs_arena_;
  std::vector<at::Tensor> outputs_;
  std::vector<std::uintptr_t> streams_;  // torch's, beside the current one
  std::unique_ptr<gpu::Timer> timer_;
  HeldBlocks held_;
  py::object runner_;
  // Of the last call, until its answer has been read.
  py::list held_arguments_;
  py::tuple timed_;  // what the last timed call answered
};

}  // namespace

void enter_sandbox(const CandidateSettings& settings, const SandboxAbilities& abilities, int socket) {
  try {
    set_environment(settings);
    drop_privileges(settings.sandbox, abilities, socket);
  } catch (const std::exception& error) {
    // stderr may be /dev/null by now; the status tells the judge.
    std::fprintf(stderr, "anneal-evald: sandbox: %s\n", error.what());
    ::_exit(sandbox_failed_status);
  }
}

void run_candidate(const CandidateSettings& settings, int socket) {
  // Leaked on purpose: the process leaves with _exit, and destructors of hostile objects must not run.
  auto* process = new CandidateProcess(settings, Channel(UniqueFd(socket)));
  try {
    process->serve();
  } catch (...) {
    ::_exit(1);  // the judge sees the channel close
  }
  ::_exit(0);
}

}  // namespace anneal::evaluator
