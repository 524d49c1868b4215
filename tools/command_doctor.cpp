// anneal doctor: what this machine can do.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include "agents/text.h"
#include "tools/command.h"
#include "tools/judge.h"

namespace anneal::tools {

namespace asio = boost::asio;
namespace fs = std::filesystem;

namespace {

struct Probe {
  asio::io_context io{1};
  std::unique_ptr<evaluator::Judge> judge;
  std::optional<evaluator::DeviceFacts> facts;
  std::string error;
};

asio::awaitable<void> probe_device(Probe* probe, JudgeOptions options) {
  auto judge = co_await start_judge(std::move(options));
  if (!judge) {
    probe->error = judge.error().message;
    co_return;
  }
  probe->judge = std::move(*judge);
  probe->facts = probe->judge->facts();
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : agents::clean_text(text, 200); }

// Prints the device's facts; false when it cannot judge.
bool print_device(const std::string& device) {
  std::cout << "device " << device << "\n";
  const auto evald = evald_path();
  const auto data = data_dir();
  if (!evald || !data) {
    std::cout << "  not usable: " << (evald ? data.error().message : evald.error().message) << "\n";
    return false;
  }
  Probe probe;
  JudgeOptions options;
  options.evald = *evald;
  options.device = device;
  options.tasks = *data / "tasks";
  asio::co_spawn(probe.io, probe_device(&probe, options), [&](std::exception_ptr e) {
    try {
      if (e) std::rethrow_exception(e);
    } catch (const std::exception& error) {
      probe.error = error.what();
    }
    probe.judge.reset();
  });
  probe.io.run();
  if (!probe.facts) {
    std::cout << "  not usable: " << agents::first_line(agents::clean_text(probe.error, 600)) << "\n";
    return false;
  }
  const evaluator::DeviceFacts& facts = *probe.facts;
  std::cout << "  name     " << or_dash(facts.device_name) << "\n  torch    " << or_dash(facts.torch) << "\n  triton   "
            << or_dash(facts.triton) << "\n  python   " << or_dash(facts.python) << "\n  driver   "
            << or_dash(facts.driver) << "\n  sandbox  " << or_dash(facts.sandbox) << "\n  at once  " << facts.jobs
            << "\n";
  if (facts.candidate_memory_mib > 0) {
    std::cout << "  a kernel " << facts.candidate_memory_mib << " MiB of memory, 1024 MiB of files ("
              << (facts.sandbox.find("namespaces") == std::string::npos ? "in memory, by mount"
                                                                        : "watched: no mounts here")
              << ")\n";
  }
  return true;
}

int run() {
  std::cout << "anneal " << ANNEAL_VERSION << "\n";
  std::error_code error;
  std::cout << "cores    " << std::thread::hardware_concurrency() << "\n";
  const auto space = fs::space(fs::current_path(error), error);
  if (!error) std::cout << "disk     " << space.available / (1 << 20) << " MiB free in the working folder\n";
  const auto data = data_dir();
  std::cout << "data     " << (data ? data->string() : data.error().message) << "\n";
  bool usable = data.has_value();
  if (data) {
    const auto suite = load_suite("anneal");
    if (suite) {
      const auto extra =
          std::count_if(suite->tasks.begin(), suite->tasks.end(), [](const auto& task) { return task.extra; });
      std::cout << "suite    anneal, " << static_cast<long>(suite->tasks.size()) - extra << " tasks, " << extra
                << " extra forms\n";
    } else {
      std::cout << "suite    " << suite.error().message << "\n";
      usable = false;
    }
  }
  const char* venv = std::getenv("VIRTUAL_ENV");
  std::cout << "venv     " << (venv == nullptr ? "none active (the judge uses the python it was built with)" : venv)
            << "\n";
  std::cout << "keys    ";
  bool any = false;
  for (const char* name : {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY", "GEMINI_API_KEY",
                           "GOOGLE_API_KEY", "MISTRAL_API_KEY", "OPENROUTER_API_KEY", "TOGETHER_API_KEY",
                           "GROQ_API_KEY", "XAI_API_KEY", "DASHSCOPE_API_KEY", "MOONSHOT_API_KEY"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::cout << " " << name;
    any = true;
  }
  std::cout << (any ? " (set; values are never shown)" : " none of the known providers' variables is set") << "\n";
  usable = print_device("cpu") && usable;
  const int gpus = gpu_count();
  if (gpus == 0) std::cout << "gpu      none (no /dev/nvidia0)\n";
  for (int i = 0; i < gpus; ++i) {
    const std::string device = "cuda:" + std::to_string(i);
    usable = print_device(device) && usable;
  }
  std::cout.flush();
  return usable ? exit_done : exit_missing;
}

}  // namespace

void add_doctor(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("doctor", "What this machine can do: devices, sandbox, keys present (never values)");
  command->callback([&exit_code] { exit_code = run(); });
}

}  // namespace anneal::tools
