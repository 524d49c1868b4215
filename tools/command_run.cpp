// anneal run: runs an experiment, or goes on with it.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "agents/config.h"
#include "agents/method.h"
#include "agents/orchestrator.h"
#include "agents/text.h"
#include "async/interrupt.h"
#include "tools/command.h"
#include "tools/display.h"
#include "tools/judge.h"
#include "transitions/database.h"
#include "transitions/design.h"
#include "transitions/harvest.h"
#include "transitions/ids.h"

namespace anneal::tools {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using asio::awaitable;
using nlohmann::json;

namespace {

struct Options {
  std::string config, database, shard = "1/1", display = "auto";
  std::vector<std::string> overrides;
  int limit = 0;
  bool retry_errors = false, json = false, dry_run = false;
};

Result<agents::Shard> parse_shard(const std::string& text) {
  agents::Shard shard;
  int end = 0;
  const bool read = std::sscanf(text.c_str(), "%d/%d%n", &shard.index, &shard.count, &end) == 2;
  if (read && end == static_cast<int>(text.size()) && shard.count >= 1 && shard.index >= 1 &&
      shard.index <= shard.count) {
    return shard;
  }
  return fail(ErrorKind::bad_input, "--shard " + text + ": must be I/N with 1 <= I <= N, e.g. 2/8.");
}

// The plan on stdout. Touches neither network nor database.
int print_plan(const agents::ExperimentConfig& config, const std::vector<agents::Task>& tasks,
               const std::vector<agents::PlannedTrajectory>& plan, bool as_json) {
  std::set<std::string> planned_tasks;
  for (const auto& planned : plan) planned_tasks.insert(planned.task.id);
  json methods = json::array();
  long long least = 0, most = 0;
  bool priced = false;
  for (const auto& method : config.methods) {
    const agents::CallRange one = agents::find_method(method.name)->calls(method.iterations, method.candidates);
    long long trajectories = 0;
    for (const auto& planned : plan) {
      if (planned.method.name == method.name && planned.method.model == method.model) ++trajectories;
    }
    priced = priced || config.find_model(method.model)->api != "replay";
    least += one.least * trajectories;
    most += one.most * trajectories;
    methods.push_back({{"method", method.name},
                       {"model", method.model},
                       {"trajectories", trajectories},
                       {"calls", {{"least", one.least * trajectories}, {"most", one.most * trajectories}}}});
  }
  const double detectable = transitions::detectable_difference(static_cast<int>(planned_tasks.size()), 0.2);
  json out = {{"event", "plan"},
              {"experiment", config.experiment},
              {"tasks", planned_tasks.size()},
              {"suite_tasks", tasks.size()},
              {"trajectories", plan.size()},
              {"methods", methods},
              {"calls", {{"least", least}, {"most", most}}}};
  // Recorded replies cost nothing; there is no price list for others yet.
  out["usd"] = priced ? json() : json({{"least", 0}, {"most", 0}});
  out["detectable_difference"] = detectable < 1 ? json(detectable) : json();
  if (as_json) {
    std::cout << out.dump() << std::endl;
    return exit_done;
  }
  std::cout << config.experiment << ": "
            << agents::count_of(static_cast<long long>(planned_tasks.size()), "task", "tasks") << ", "
            << agents::count_of(static_cast<long long>(plan.size()), "trajectory", "trajectories") << " on "
            << config.device << "\n";
  for (const auto& method : methods) {
    std::cout << "  " << method["method"].get<std::string>() << "@" << method["model"].get<std::string>() << ": "
              << method["trajectories"] << " trajectories, " << method["calls"]["least"] << " to "
              << method["calls"]["most"] << " calls\n";
  }
  std::cout << "calls: " << least << " to " << most << "\n"
            << "cost: " << (priced ? "not estimated (no prices are known for these models)" : "0 (recorded replies)")
            << "\n";
  if (detectable < 1) {
    std::cout << "detectable difference of two methods: " << std::round(detectable * 1000) / 10
              << " points (paired tasks, one seed, 20 % discordant, power 80 %)\n";
  } else {
    std::cout << "detectable difference of two methods: none (too few tasks for a paired comparison)\n";
  }
  return exit_done;
}

// Everything a run owns. Members are destroyed in reverse order: who uses before who is used.
struct Session {
  asio::io_context io{1};
  std::unique_ptr<transitions::Store> store;
  std::unique_ptr<llm::Client> llm;
  std::unique_ptr<evaluator::Judge> judge;
};

awaitable<Result<agents::RunSummary>> run_all(Session* session, Display* display, const agents::Prompts* prompts,
                                              JudgeOptions judge_options, agents::ExperimentConfig config,
                                              std::vector<agents::PlannedTrajectory> plan, agents::RunOptions options) {
  auto judge = co_await start_judge(std::move(judge_options));
  if (!judge) co_return tl::unexpected(judge.error());
  session->judge = std::move(*judge);
  warn_of_sandbox(session->judge->facts());
  agents::Engine engine{*session->store, *session->llm, *session->judge, *prompts, *display};
  auto summary = co_await agents::run_experiment(engine, std::move(config), std::move(plan), std::move(options));
  co_return summary;
}

awaitable<Result<void>> close_store(transitions::Store* store, std::string experiment, bool interrupted) {
  if (interrupted) {
    auto put = co_await store->put_event(experiment, "run_interrupted", "{}");
    if (!put) co_return put;
  }
  auto closed = co_await store->close();
  co_return closed;
}

Result<void> harvest_file(const fs::path& file) {
  auto database = transitions::Database::open(file, transitions::Database::Mode::create_or_open);
  if (!database) return tl::unexpected(database.error());
  const auto rows = transitions::harvest(**database);
  if (!rows) return tl::unexpected(rows.error());
  return {};
}

// What earlier runs spent, and a model that then answered without token counts; it is empty where all were counted.
struct Spent {
  long long tokens = 0;
  std::string uncounted_model;
};

Result<Spent> spent_before(const fs::path& file) {
  auto database = transitions::Database::open(file, transitions::Database::Mode::read_only);
  if (!database) return tl::unexpected(database.error());
  try {
    SQLite::Statement sums((*database)->sql(),
                           "SELECT coalesce(sum(coalesce(prompt_tokens, 0) + coalesce(completion_tokens, 0)), 0), "
                           "coalesce(max(CASE WHEN completion_tokens IS NULL THEN model END), '') "
                           "FROM llm_call WHERE status = 'ok'");
    sums.executeStep();
    return Spent{sums.getColumn(0).getInt64(), sums.getColumn(1).getString()};
  } catch (const std::exception& error) {
    return tl::unexpected<Error>(transitions::database_error(file, error));
  }
}

// What would stop the run and can be seen without the judge and without the network.
std::vector<Error> problems_of(const std::vector<llm::ModelConfig>& models, const fs::path& database) {
  std::vector<Error> problems;
  for (const auto& model : models) {
    if (auto sound = llm::check_model(model); !sound) problems.push_back(sound.error());
  }
  if (auto usable = check_database(database); !usable) problems.push_back(usable.error());
  return problems;
}

int run(const Options& options) {
  std::vector<std::string> overrides = options.overrides;
  if (options.limit > 0) overrides.push_back("tasks.limit=" + std::to_string(options.limit));
  auto config = agents::read_config(options.config, overrides);
  if (!config) return report_error(config.error());
  const auto shard = parse_shard(options.shard);
  if (!shard) return report_error(shard.error());
  const auto suite = load_suite(config->suite);
  if (!suite) return report_error(suite.error());
  const auto tasks = agents::select_tasks(*config, *suite);
  if (!tasks) return report_error(tasks.error());
  auto plan = agents::plan_trajectories(*config, *tasks, *shard);
  std::vector<llm::ModelConfig> models;
  for (const auto& model : config->models) {
    const bool used = std::any_of(config->methods.begin(), config->methods.end(),
                                  [&](const auto& method) { return method.model == model.name; });
    if (used) models.push_back(model);
  }
  fs::path file = options.database;
  if (file.empty()) {
    std::string name = config->experiment;
    if (shard->count > 1) name += "." + std::to_string(shard->index) + "-of-" + std::to_string(shard->count);
    file = fs::path("runs") / (name + ".db");
  }
  const std::vector<Error> problems = problems_of(models, file);
  if (options.dry_run) {
    for (const Error& problem : problems) {
      report_error(Error{problem.kind, "warning: the run would stop: " + problem.message});
    }
    return print_plan(*config, *tasks, plan, options.json);
  }
  if (!problems.empty()) {
    for (size_t i = 1; i < problems.size(); ++i) report_error(problems[i]);
    return report_error(problems[0]);
  }

  const auto device = resolve_device(config->device);
  if (!device) return report_error(device.error());
  config->device = *device;
  const auto data = data_dir();
  if (!data) return report_error(data.error());
  const auto prompts = agents::Prompts::load(*data / "prompts");
  if (!prompts) return report_error(prompts.error());
  const auto evald = evald_path();
  if (!evald) return report_error(evald.error());

  if (auto made = make_runs_folder(file); !made) return report_error(made.error());

  Session session;
  auto store = transitions::Store::open(file);
  if (!store) return report_error(store.error());
  session.store = std::move(*store);
  auto client = llm::Client::create(session.io, std::move(models), *session.store);
  if (!client) return report_error(client.error());
  session.llm = std::move(*client);

  agents::RunOptions run_options;
  run_options.retry_errors = options.retry_errors;
  const json software = {{"anneal", ANNEAL_VERSION}};
  run_options.software_json = software.dump();
  if (config->budget.tokens) {
    const auto spent = spent_before(file);
    if (!spent) return report_error(spent.error());
    run_options.tokens_before = spent->tokens;
    run_options.uncounted_model = spent->uncounted_model;
  }
  JudgeOptions judge_options;
  judge_options.evald = *evald;
  judge_options.device = *device;
  judge_options.tasks = suite->root;
  judge_options.suite = config->suite;
  judge_options.jobs = config->jobs;
  judge_options.target = config->target;
  std::vector<fs::path> recordings;
  for (const auto& model : config->models) {
    if (!model.from.empty()) recordings.emplace_back(model.from);
  }
  judge_options.hide = folders_to_hide(file, recordings, *data, *evald);

  const Display::Mode mode = Display::mode_of(options.display);
  Display display(session.io, mode, options.json);
  display.watch(&session.llm->counters());
  asio::cancellation_signal cancel;
  Interrupt interrupt(session.io.get_executor(), [&] {
    if (mode != Display::Mode::none) display.say("stopping; a second Ctrl-C leaves at once");
    cancel.emit(asio::cancellation_type::terminal);
  });
  std::optional<Result<agents::RunSummary>> summary;
  std::exception_ptr thrown;
  asio::co_spawn(
      session.io, run_all(&session, &display, &*prompts, judge_options, *config, std::move(plan), run_options),
      asio::bind_cancellation_slot(cancel.slot(), [&](std::exception_ptr e, Result<agents::RunSummary> result) {
        thrown = e;
        if (!e) summary = std::move(result);
        interrupt.stop();
        display.stop();
        // Ends the daemon; its last breath is on this loop.
        session.judge.reset();
      }));
  session.io.run();

  const bool interrupted = interrupt.requested();
  std::string failure;
  if (thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& exception) {
      failure = exception.what();
    }
  }
  std::optional<Result<void>> closed;
  session.io.restart();
  asio::co_spawn(session.io, close_store(session.store.get(), transitions::make_id({config->experiment}), interrupted),
                 [&](std::exception_ptr e, Result<void> result) {
                   if (e) result = fail(ErrorKind::io, file.string() + ": could not be closed.");
                   closed = std::move(result);
                 });
  session.io.run();
  session.llm.reset();
  session.store.reset();
  // What stopped the run comes first: a store that failed does not close well either.
  if (summary && !*summary && !interrupted) return report_error(summary->error());
  if (!closed || !*closed) {
    return report_error(closed ? closed->error() : Error{ErrorKind::io, file.string() + ": could not be closed."});
  }
  if (interrupted) {
    if (options.json) std::cout << json({{"event", "run_interrupted"}}).dump() << std::endl;
    std::fprintf(stderr, "interrupted; %s keeps all that was done: run the same command again to go on\n",
                 file.c_str());
    return exit_interrupted;
  }
  if (thrown) return report_error(Error{ErrorKind::internal, "internal error: " + failure + "."});
  if (!summary) return report_error(Error{ErrorKind::internal, "internal error: the run ended without a result."});
  if (auto harvested = harvest_file(file); !harvested) return report_error(harvested.error());

  const agents::RunSummary& result = **summary;
  int code = exit_done;
  if (result.failed > 0) {
    code = exit_failed;
    if (mode == Display::Mode::none) {  // with a display each was told when it happened
      constexpr size_t most_shown = 5;
      for (size_t i = 0; i < result.failures.size() && i < most_shown; ++i) {
        std::fprintf(stderr, "anneal: failed: %s\n", agents::clean_text(result.failures[i], 1000).c_str());
      }
      if (result.failures.size() > most_shown) {
        std::fprintf(stderr, "anneal: and %zu more; see 'anneal status %s'\n", result.failures.size() - most_shown,
                     file.c_str());
      }
    }
    std::fprintf(
        stderr, "anneal: %s failed; %s\n", agents::count_of(result.failed, "trajectory", "trajectories").c_str(),
        result.lost_replies > 0 ? "where replies did not arrive, --retry-errors asks for them again"
                                : "see to the cause, then run the same command again: it goes on with what is left");
  } else if (!result.budget_spent && result.uncounted_model.empty() &&
             result.done + result.found_done < result.planned) {
    code = exit_failed;
    std::fprintf(stderr, "anneal: %d of %d trajectories were not run; run the same command again\n",
                 result.planned - result.done - result.found_done, result.planned);
  } else if (result.lost_replies > 0) {
    std::fprintf(stderr, "anneal: %s failed (api_error); ask again with --retry-errors\n",
                 agents::count_of(result.lost_replies, "call", "calls").c_str());
  }
  if (!result.uncounted_model.empty()) {
    code = exit_failed;
    std::fprintf(
        stderr,
        "anneal: budget.tokens was not kept: the server of model '%s' sends no token counts; use budget.hours\n",
        result.uncounted_model.c_str());
  }
  if (result.budget_spent) {
    code = exit_budget;
    std::fprintf(stderr, "anneal: the budget is spent; raise it and run again to go on\n");
  }
  if (mode != Display::Mode::none) {
    std::fprintf(stderr,
                 "%d done, %d done before, %d failed; %lld attempts: %lld judged, %lld of code judged before, %lld "
                 "without a kernel\n",
                 result.done, result.found_done, result.failed, result.attempts, result.judged, result.verdicts_found,
                 std::max(0LL, result.attempts - result.judged - result.verdicts_found));
  }
  std::fprintf(stderr, "%s is written; next: anneal %s %s\n", file.c_str(),
               result.done + result.found_done > 0 ? "report" : "status", file.c_str());
  return code;
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("run", "Run an experiment, or go on with it where it stopped");
  command->add_option("CONFIG", options->config, "the experiment's YAML, e.g. configs/quickstart.yaml")->required();
  command->add_option("--db", options->database, "the experiment's file (default: runs/<experiment>.db)")
      ->check(not_empty);
  command->add_option("--shard", options->shard, "I/N: only the I-th of N parts of the tasks");
  command->add_option("--limit", options->limit, "at most that many tasks")->check(CLI::PositiveNumber);
  command
      ->add_option("--set", options->overrides,
                   "KEY=VALUE: overrides a key, e.g. device=cuda:0 or methods.geak.seeds=3")
      ->allow_extra_args(false)
      ->take_all();
  command->add_flag("--retry-errors", options->retry_errors, "ask again where a reply did not arrive");
  command->add_flag("--json", options->json, "one JSON event a line on stdout");
  command->add_flag("--dry-run", options->dry_run,
                    "print the plan, and on stderr what would stop the run; touch nothing");
  command->add_option("--display", options->display, "auto, plain or none")
      ->check(CLI::IsMember({"auto", "plain", "none"}))
      ->capture_default_str();
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace anneal::tools
