// anneal-evald: one process a device. Judges kernels that arrive as frames on descriptor 3 (docs/protocol.md).
#include <ATen/Parallel.h>
#include <Python.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "evaluator/daemon/gpu.h"
#include "evaluator/daemon/judge.h"
#include "evaluator/daemon/sandbox.h"
#include "evaluator/daemon/scratch.h"
#include "evaluator/daemon/server.h"
#include "evaluator/daemon/tree_watch.h"
#include "evaluator/daemon/zygote.h"
#include "evaluator/protocol.h"

namespace anneal::evaluator {
namespace {

using nlohmann::json;
namespace py = pybind11;

constexpr int orchestrator_fd = 3;

struct Options {
  std::string device = "cpu", tasks, suite = "anneal", target = "sm_90";
  std::vector<std::string> hide;
  int jobs = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 4);
  std::uint64_t memory_mib = 0;  // of a candidate; 0: its share of the machine
  double call_seconds = 60, run_seconds = 30, perf_seconds = 1.5;
};

const char* const usage =
    "usage: anneal-evald --device cpu|cuda:N --tasks DIR [--suite NAME] [--jobs N] [--target sm_XX] [--hide DIR]...\n"
    "                    [--call-seconds S] [--run-seconds S] [--perf-seconds S] [--memory-mib N]\n"
    "anneal starts it with a socket on descriptor 3; it is not meant to be run by hand.\n";

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 >= argc) return std::nullopt;
    const std::string value = argv[i + 1];
    try {
      if (name == "--device")
        options.device = value;
      else if (name == "--tasks")
        options.tasks = std::filesystem::absolute(value).string();
      else if (name == "--suite")
        options.suite = value;
      else if (name == "--target")
        options.target = value;
      else if (name == "--hide")
        options.hide.push_back(std::filesystem::absolute(value).string());
      else if (name == "--jobs")
        options.jobs = std::stoi(value);
      else if (name == "--memory-mib")
        options.memory_mib = std::stoull(value);
      else if (name == "--call-seconds")
        options.call_seconds = std::stod(value);
      else if (name == "--run-seconds")
        options.run_seconds = std::stod(value);
      else if (name == "--perf-seconds")
        options.perf_seconds = std::stod(value);
      else
        return std::nullopt;
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }
  if (options.tasks.empty() || options.jobs < 1 || options.target.rfind("sm_", 0) != 0) return std::nullopt;
  return options;
}

// What must not outlive this process: the zygote, with its candidates, and their files.
struct Remains {
  std::mutex mutex;
  ZygoteClient* zygote = nullptr;
  std::unique_ptr<RunFolder> folder;
};
Remains& remains() {
  static Remains all;
  return all;
}

// Python and CUDA are never torn down.
[[noreturn]] void leave(int status) {
  remains().mutex.lock();  // never unlocked: whoever comes second waits for the end
  if (remains().zygote != nullptr) remains().zygote->end();
  if (remains().folder != nullptr) remains().folder->remove();
  std::_Exit(status);
}

// From here on SIGTERM and SIGHUP, and the end of the orchestrator, end this process by way of leave().
void leave_on_signals() {
  sigset_t awaited;
  ::sigemptyset(&awaited);
  ::sigaddset(&awaited, SIGTERM);
  ::sigaddset(&awaited, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &awaited, nullptr);  // for all threads started later too
  std::thread([awaited] {
    int signal = 0;
    while (::sigwait(&awaited, &signal) != 0) {
    }
    leave(128 + signal);
  }).detach();
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
}

// The socket to the orchestrator. Frames of several evaluations are written by several threads.
class Orchestrator {
 public:
  void send(const json& message) {
    const std::string frame = encode_frame(message);
    const std::lock_guard lock(mutex_);
    for (std::size_t at = 0; at < frame.size();) {
      const ssize_t count = ::write(orchestrator_fd, frame.data() + at, frame.size() - at);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) leave(0);  // the orchestrator is gone: nobody wants the verdict
      at += static_cast<std::size_t>(count);
    }
  }

  // nullopt at the end of the stream.
  std::optional<json> receive() {
    char header[frame_header_bytes];
    if (!read_all(header, sizeof header)) return std::nullopt;
    const std::uint32_t size = decode_frame_length(header);
    if (size > max_frame_bytes) return std::nullopt;
    std::string body(size, '\0');
    if (!read_all(body.data(), body.size())) return std::nullopt;
    return json::parse(body);
  }

 private:
  static bool read_all(char* data, std::size_t size) {
    while (size > 0) {
      const ssize_t count = ::read(orchestrator_fd, data, size);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      data += count;
      size -= static_cast<std::size_t>(count);
    }
    return true;
  }

  std::mutex mutex_;
};

[[noreturn]] void give_up(Orchestrator& orchestrator, const char* kind, const std::string& message) {
  orchestrator.send({{"type", "fatal"}, {"kind", kind}, {"message", message}});
  leave(3);
}

std::string python_executable() {
  if (const char* chosen = std::getenv("ANNEAL_PYTHON"); chosen != nullptr && *chosen != '\0') return chosen;
  return ANNEAL_PYTHON;
}

// Starts the interpreter of the venv, without signal handlers; it is never finalised.
void start_python(const std::string& executable) {
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.isolated = 1;
  config.install_signal_handlers = 0;
  config.parse_argv = 0;
  PyConfig_SetBytesString(&config, &config.program_name, executable.c_str());
  PyConfig_SetBytesString(&config, &config.executable, executable.c_str());
  const PyStatus status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status)) {
    throw std::runtime_error(std::string("Python did not start: ") +
                             (status.err_msg != nullptr ? status.err_msg : "?"));
  }
}

// Every thread pool that an import would start is held at one thread until after the fork.
void hold_threads() {
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) ::setenv(name, "1", 1);
  ::setenv("PYTORCH_NVML_BASED_CUDA_CHECK", "1", 1);
  ::setenv("TRITON_INTERPRET", "0", 1);
}

std::filesystem::path python_sources() {
  if (const char* chosen = std::getenv("ANNEAL_EVALUATOR_PYTHON"); chosen != nullptr) return chosen;
  return ANNEAL_EVALUATOR_PYTHON;
}

// What a candidate must be able to read beside the system's own folders: Python's, torch's, our own modules, and where
// the loader finds libraries.
std::vector<std::string> python_folders() {
  const py::module_ sys = py::module_::import("sys");
  auto folders = sys.attr("path").cast<std::vector<std::string>>();
  for (const char* name : {"prefix", "base_prefix", "exec_prefix"}) {
    folders.push_back(sys.attr(name).cast<std::string>());
  }
  if (const char* libraries = std::getenv("LD_LIBRARY_PATH"); libraries != nullptr) {
    std::istringstream all(libraries);
    for (std::string one; std::getline(all, one, ':');) folders.push_back(one);
  }
  std::vector<std::string> absolute;
  for (const std::string& folder : folders) {
    std::error_code error;
    const auto whole = std::filesystem::canonical(folder, error);
    // A root folder here (an empty or odd entry) would show everything.
    if (!error && std::filesystem::is_directory(whole) && whole != whole.root_path()) absolute.push_back(whole);
    if (!error && std::filesystem::path(folder).is_absolute() && whole != folder) absolute.push_back(folder);
  }
  return absolute;
}

int device_ordinal(const std::string& device) {
  if (device == "cpu") return -1;
  if (device.rfind("cuda:", 0) == 0) return std::stoi(device.substr(5));
  throw std::invalid_argument("the device " + device + " is none of cpu, cuda:N");
}

int run(const Options& options) {
  Orchestrator orchestrator;
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);  // Ctrl-C is the orchestrator's to handle; it closes the socket
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  JudgeSettings settings;
  try {
    settings.device = device_ordinal(options.device);
  } catch (const std::exception& error) {
    give_up(orchestrator, "bad_input", error.what());
  }
  if (settings.device >= 0 && !gpu::built_in()) {
    give_up(orchestrator, "missing",
            "this anneal-evald was built without the CUDA toolkit, so it has no " + options.device +
                "; install nvcc and run tools/build, or use device: cpu");
  }
  if (settings.device >= 0 && !gpu::simulated() && ::access("/dev/nvidiactl", F_OK) != 0 &&
      ::access("/dev/dxg", F_OK) != 0) {
    give_up(
        orchestrator, "missing",
        "this machine has no NVIDIA GPU (no /dev/nvidiactl), so there is no " + options.device + "; use device: cpu");
  }
  settings.device_text = options.device;
  settings.suite = options.suite;
  settings.tasks_folder = options.tasks;
  settings.hidden_folders = options.hide;
  settings.hidden_folders.push_back(options.tasks);
  settings.call_seconds = options.call_seconds;
  settings.run_seconds = options.run_seconds;
  settings.perf_seconds_a_case = options.perf_seconds;

  const std::string python = python_executable();
  std::unique_ptr<Judge> judge;
  json facts;
  try {
    settings.capability = std::stoi(options.target.substr(3));
    hold_threads();
    start_python(python);
    py::module_::import("sys").attr("path").attr("insert")(0, python_sources().string());
    py::module_::import("sys").attr("dont_write_bytecode") = true;
    py::module_::import("torch");
    py::module_::import("triton");
    py::module_::import("anneal_eval.candidate");
    settings.visible_folders = python_folders();
    SandboxAbilities abilities = probe_sandbox(python);
    abilities.candidate_memory = options.memory_mib > 0 ? options.memory_mib << 20 : memory_share(options.jobs);
    auto zygote = std::make_unique<ZygoteClient>(fork_zygote(abilities), abilities);
    zygote->on_loss([] {
      std::cerr << "anneal-evald: the zygote, from which kernels' processes are forked, is gone\n";
      leave(1);
    });
    remains().zygote = zygote.get();
    leave_on_signals();  // only now: the zygote must inherit neither the thread nor the blocked signals
    remains().folder = RunFolder::create();
    settings.run_folder = remains().folder->path();
    at::set_num_threads(std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / options.jobs));
    judge = Judge::create(settings, std::move(zygote));
    const JudgeFacts& own = judge->facts();
    facts = {{"device", options.device},  {"device_name", own.device_name},
             {"torch", own.torch},        {"triton", own.triton},
             {"python", own.python},      {"driver", own.driver},
             {"sandbox", abilities.text}, {"settings_sha256", own.settings_sha256},
             {"jobs", options.jobs},      {"candidate_memory_mib", abilities.candidate_memory >> 20}};
  } catch (const py::error_already_set& error) {
    give_up(orchestrator, "missing", std::string("Python at ") + python + ": " + error.what() + " (run tools/setup)");
  } catch (const std::exception& error) {
    give_up(orchestrator, "missing", error.what());
  }
  orchestrator.send({{"type", "hello"}, {"protocol", protocol_version}, {"facts", facts}});

  const py::gil_scoped_release no_gil;
  Server server([&orchestrator](const json& message) { orchestrator.send(message); }, *judge, options.jobs);
  while (auto message = orchestrator.receive()) {
    if (!server.take(*message)) break;
  }
  leave(0);
}

}  // namespace
}  // namespace anneal::evaluator

int main(int argc, char** argv) {
  const auto options = anneal::evaluator::parse(argc, argv);
  if (!options) {
    std::cerr << anneal::evaluator::usage;
    return 2;
  }
  if (struct stat facts{}; ::fstat(3, &facts) != 0 || !S_ISSOCK(facts.st_mode)) {
    std::cerr << "anneal-evald: descriptor 3 is not a socket\n" << anneal::evaluator::usage;
    return 2;
  }
  return anneal::evaluator::run(*options);
}
