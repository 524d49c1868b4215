// anneal tasks lint: whether tasks are fit to judge with. The judge's daemon does the work; here are order and output.
#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "agents/text.h"
#include "async/nursery.h"
#include "evaluator/client.h"
#include "tools/command.h"
#include "tools/interruptible.h"
#include "tools/judge.h"

namespace anneal::tools {

namespace asio = boost::asio;
using asio::awaitable;

namespace {

struct Options {
  std::string suite = "anneal", device = "cpu";
  std::vector<std::string> tasks;
  int jobs = 0;
  bool extra = false;
  bool json = false;
};

struct Session {
  asio::io_context io{1};
  std::unique_ptr<evaluator::Client> judge;
  std::vector<agents::Task> tasks;
  std::vector<std::optional<Result<evaluator::LintReport>>> reports;
  bool json = false;
  size_t printed = 0;  // reports, in the tasks' order
  size_t unfit = 0;
};

std::string plain(const std::string& text, size_t longest) {
  std::string line = agents::clean_text(text, longest);
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::replace(line.begin(), line.end(), '\t', ' ');
  return line;
}

// A line of the task, and below it one of each finding.
std::string text_of(const evaluator::LintReport& report) {
  std::string text = plain(report.task, 200) + ": ";
  if (report.findings.empty()) {
    return text + "ok (" + agents::count_of(report.input_sets, "input set", "input sets") + ", " +
           agents::count_of(report.refused, "null answer", "null answers") + " refused)";
  }
  constexpr size_t most_told = 5;
  text += "failed";
  for (size_t i = 0; i < std::min(most_told, report.findings.size()); ++i) {
    const evaluator::LintFinding& one = report.findings[i];
    text +=
        "\n    " + one.check + ": " + (one.where.empty() ? "" : plain(one.where, 200) + ": ") + plain(one.message, 600);
  }
  if (report.findings.size() > most_told) {
    text += "\n    and " + std::to_string(report.findings.size() - most_told) + " more (--json has all)";
  }
  return text;
}

// What is known, up to the first task that is not.
void print_known(Session* session) {
  for (; session->printed < session->reports.size() && session->reports[session->printed]; ++session->printed) {
    const auto& report = *session->reports[session->printed];
    if (!report) {
      ++session->unfit;
      const std::string task = session->tasks[session->printed].id;
      if (session->json) {
        std::cout << nlohmann::json{{"task", task}, {"error", agents::clean_text(report.error().message, 4000)}}.dump();
      } else {
        std::cout << task << ": not linted: " << plain(report.error().message, 600);
      }
    } else {
      session->unfit += report->findings.empty() ? 0 : 1;
      if (session->json) {
        std::cout << evaluator::lint_report_to_json(*report).dump(-1, ' ', false,
                                                                  nlohmann::json::error_handler_t::replace);
      } else {
        std::cout << text_of(*report);
      }
    }
    std::cout << std::endl;
  }
}

awaitable<void> lint_one(Session* session, size_t index) {
  auto report = co_await session->judge->lint(session->tasks[index].id);
  session->reports[index].emplace(std::move(report));
  print_known(session);
}

awaitable<Result<void>> lint_all(Session* session, JudgeOptions options) {
  auto judge = co_await start_client(std::move(options));
  if (!judge) co_return tl::unexpected(judge.error());
  session->judge = std::move(*judge);
  Nursery nursery(co_await asio::this_coro::executor);
  for (size_t i = 0; i < session->tasks.size(); ++i) nursery.spawn(lint_one(session, i));
  co_await nursery.join();
  co_return Result<void>();
}

int run(const Options& options) {
  const auto suite = load_suite(options.suite);
  if (!suite) return report_error(suite.error());
  auto tasks = choose_tasks(*suite, options.tasks, options.extra);
  if (!tasks) return report_error(tasks.error());
  if (options.device.find(',') != std::string::npos) {
    return report_error(Error{ErrorKind::bad_input, "--device: more than one device is not supported yet."});
  }
  const auto device = resolve_device(options.device);
  if (!device) return report_error(device.error());
  const auto evald = evald_path();
  if (!evald) return report_error(evald.error());
  Session session;
  session.tasks = std::move(*tasks);
  session.reports.resize(session.tasks.size());
  session.json = options.json;
  JudgeOptions judge_options;
  judge_options.evald = *evald;
  judge_options.device = *device;
  judge_options.tasks = suite->root;
  judge_options.suite = options.suite;
  judge_options.jobs = options.jobs;
  std::fprintf(stderr, "linting %s on %s\n",
               agents::count_of(static_cast<long long>(session.tasks.size()), "task", "tasks").c_str(),
               device->c_str());

  const WorkEnd end =
      run_interruptibly(session.io, lint_all(&session, judge_options), [&session] { session.judge.reset(); });
  if (end.interrupted) {
    std::fprintf(stderr, "interrupted; run the same command again\n");
    return exit_interrupted;
  }
  if (!end.result) return report_error(end.result.error());
  if (session.unfit > 0) {
    std::fprintf(stderr, "anneal: %zu of %s failed\n", session.unfit,
                 agents::count_of(static_cast<long long>(session.tasks.size()), "task", "tasks").c_str());
    return exit_failed;
  }
  return exit_done;
}

}  // namespace

void add_lint(CLI::App& tasks_command, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = tasks_command.add_subcommand(
      "lint", "Whether tasks are fit to judge with: a line a task, below it what was found");
  command->add_option("--suite", options->suite, "anneal")->capture_default_str();
  command->add_option("--device", options->device, "cpu, cuda:0 or cuda")->capture_default_str();
  command->add_option("--jobs", options->jobs, "tasks at once (default: the judge's own choice)")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--extra", options->extra, "also the forms beyond the published ones");
  command->add_flag("--json", options->json, "as JSON, one line a task");
  command->add_option("TASK", options->tasks, "task ids");
  command->footer("Exit code 1: a task failed. docs/metrics.md, \"Lint\", says what is checked.");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace anneal::tools
