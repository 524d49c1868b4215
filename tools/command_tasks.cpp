// anneal tasks list|show: the suite as models are told it.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/command.h"

namespace anneal::tools {
namespace {

struct Options {
  std::string suite = "anneal";
  std::vector<std::string> tasks;
  bool json = false;
  bool extra = false;
};

nlohmann::json to_json(const agents::Task& task) {
  return {{"task", task.id},
          {"stem", task.stem},
          {"category", task.category},
          {"precision", task.precision},
          {"signature", task.signature},
          {"description", task.description},
          {"comparison", task.comparison},
          {"difficulty", task.difficulty},
          {"extra", task.extra},
          {"file", task.file.string()},
          {"file_sha256", task.file_sha256}};
}

std::string padded(const std::string& text, size_t width) {
  return text.size() >= width ? text + " " : text + std::string(width - text.size(), ' ');
}

int run(const Options& options, bool show) {
  const auto suite = load_suite(options.suite);
  if (!suite) return report_error(suite.error());
  const auto chosen = choose_tasks(*suite, options.tasks, options.extra);
  if (!chosen) return report_error(chosen.error());
  if (options.json) {
    auto list = nlohmann::json::array();
    for (const auto& task : *chosen) list.push_back(to_json(task));
    std::cout << list.dump(2) << "\n";
  } else if (show) {
    for (const auto& task : *chosen) {
      std::cout << task.id << "  (" << task.category << ", " << task.precision << ", difficulty " << task.difficulty
                << ", comparison " << task.comparison << ")\n"
                << task.file.string() << "\n\n"
                << task.signature << "\n\n"
                << task.description << "\n\n";
    }
  } else {
    std::cout << padded("task", 28) << padded("category", 18) << padded("precision", 11) << "difficulty\n";
    for (const auto& task : *chosen) {
      std::cout << padded(task.id, 28) << padded(task.category, 18) << padded(task.precision, 11) << task.difficulty
                << "\n";
    }
  }
  std::cout.flush();
  return exit_done;
}

}  // namespace

void add_tasks(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("tasks", "The tasks of a suite");
  command->require_subcommand(1);
  for (const bool show : {false, true}) {
    auto options = std::make_shared<Options>();
    CLI::App* one = show ? command->add_subcommand("show", "Signature and description, as a model is told them")
                         : command->add_subcommand("list", "One line a task");
    one->add_option("--suite", options->suite, "anneal")->capture_default_str();
    one->add_flag("--json", options->json, "as JSON");
    auto* tasks = one->add_option("TASK", options->tasks, "task ids");
    if (show) {
      tasks->required();
    } else {
      one->add_flag("--extra", options->extra, "also the forms beyond the published ones");
    }
    one->callback([options, show, &exit_code] { exit_code = run(*options, show); });
  }
  add_lint(*command, exit_code);
}

}  // namespace anneal::tools
