// anneal eval: judges kernels without a model.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/system/system_error.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "agents/evaluations.h"
#include "agents/orchestrator.h"
#include "agents/suggest.h"
#include "agents/text.h"
#include "async/nursery.h"
#include "async/sha256.h"
#include "tools/command.h"
#include "tools/interruptible.h"
#include "tools/judge.h"
#include "tools/submissions.h"
#include "transitions/ids.h"
#include "transitions/whole_file.h"

namespace anneal::tools {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using asio::awaitable;
using nlohmann::json;

namespace {

struct Options {
  std::string submissions, suite = "anneal", device = "cpu", stages, database, out, task, target = "sm_90";
  int jobs = 0;
  bool policy_off = false;
};

struct Judged {
  std::optional<Result<evaluator::Verdict>> verdict;
};

struct Session {
  asio::io_context io{1};
  std::unique_ptr<transitions::Store> store;
  std::unique_ptr<evaluator::Judge> judge;
  std::vector<Submission> submissions;
  std::vector<std::string> stages;
  bool policy_off = false;
  std::vector<Judged> judged;
};

awaitable<void> judge_one(Session* session, agents::Evaluations* evaluations, size_t index) {
  const Submission& submission = session->submissions[index];
  if (evaluations != nullptr) {
    auto row = co_await evaluations->evaluate(submission.task, submission.code, "");
    if (row) {
      session->judged[index].verdict.emplace(std::move(row->verdict));
    } else {
      session->judged[index].verdict.emplace(tl::unexpected(row.error()));
    }
    co_return;
  }
  evaluator::EvaluationRequest request;
  request.task = submission.task.id;
  request.category = submission.task.category;
  request.code = submission.code;
  request.stages = session->stages;
  request.policy_off = session->policy_off;
  auto verdict = co_await session->judge->evaluate(std::move(request));
  session->judged[index].verdict.emplace(std::move(verdict));
}

awaitable<Result<void>> prepare_store(Session* session, std::string suite) {
  transitions::ExperimentRow experiment;
  experiment.name = "eval";
  experiment.id = transitions::make_id({experiment.name});
  experiment.suite = suite;
  experiment.config_json = "{}";
  json software;
  software["anneal"] = ANNEAL_VERSION;
  experiment.software_json = software.dump();
  auto existing = co_await session->store->find_experiment();
  if (!existing) co_return tl::unexpected(existing.error());
  if (!*existing) {
    auto put = co_await session->store->put_experiment(std::move(experiment));
    if (!put) co_return put;
  }
  auto put = co_await session->store->put_device(agents::device_row(session->judge->facts()));
  co_return put;
}

awaitable<Result<void>> judge_all(Session* session, JudgeOptions options) {
  const std::string suite = options.suite;
  auto judge = co_await start_judge(std::move(options));
  if (!judge) co_return tl::unexpected(judge.error());
  session->judge = std::move(*judge);
  warn_of_sandbox(session->judge->facts());
  std::unique_ptr<agents::Evaluations> evaluations;
  if (session->store != nullptr) {
    auto prepared = co_await prepare_store(session, suite);
    if (!prepared) co_return prepared;
    evaluations = std::make_unique<agents::Evaluations>(
        *session->store, *session->judge, agents::device_row(session->judge->facts()).id, session->policy_off);
  }
  Nursery nursery(co_await asio::this_coro::executor);
  for (size_t i = 0; i < session->submissions.size(); ++i) nursery.spawn(judge_one(session, evaluations.get(), i));
  co_await nursery.join();
  co_return Result<void>();
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text + "  ";
}

// Why a kernel was not accepted, for people: the first line of what a model would be told.
std::string reason_of(const evaluator::Verdict& verdict) {
  constexpr size_t longest = 160;
  for (const std::string& text :
       {verdict.feedback, verdict.call.message, verdict.exe.message, verdict.policy.message}) {
    const std::string clean = agents::trim(agents::clean_text(text.substr(0, 4 * longest), 4 * longest));
    if (clean.empty()) continue;
    std::string line = agents::first_line(clean);
    std::replace(line.begin(), line.end(), '\t', ' ');
    if (line.size() <= longest) return line;
    size_t end = longest;
    while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0u) == 0x80u) --end;  // not inside a character
    return line.substr(0, end) + "...";
  }
  return "";
}

std::string word(const std::string& text) { return agents::first_line(agents::clean_text(text, 100)); }

void print_table(const Session& session) {
  size_t label_width = 10, task_width = 4;
  for (const Submission& submission : session.submissions) {
    label_width = std::max(label_width, submission.label.size());
    task_width = std::max(task_width, submission.task.id.size());
  }
  std::cout << padded("submission", label_width) << padded("task", task_width) << padded("call", 20)
            << padded("exe", 20) << padded("strict", 6) << padded("policy", 14) << padded("accepted", 8) << "speedup\n";
  size_t call = 0, exe = 0, strict = 0, accepted = 0, judged = 0;
  for (size_t i = 0; i < session.submissions.size(); ++i) {
    const Submission& submission = session.submissions[i];
    std::cout << padded(agents::clean_text(submission.label, 200), label_width)
              << padded(submission.task.id, task_width);
    const auto& result = session.judged[i].verdict;
    if (!result || !*result) {
      std::cout << "not judged: "
                << (result ? agents::first_line(agents::clean_text(result->error().message, 300)) : "stopped") << "\n";
      continue;
    }
    const evaluator::Verdict& v = **result;
    ++judged;
    call += v.call.ok;
    exe += v.exe.ok;
    strict += v.exe.strict_ok;
    accepted += v.accepted;
    std::string speed = "not measured";
    if (v.perf.speedup) {
      std::ostringstream text;
      text.precision(3);
      text << *v.perf.speedup << " " << v.perf.verdict;
      speed = text.str();
    } else if (v.perf.status == "skipped" || v.perf.status == "rejected") {
      speed = v.perf.status;
    }
    std::cout << padded(word(v.call.failure_class), 20) << padded(word(v.exe.failure_class), 20)
              << padded(v.exe.strict_ok ? "yes" : "no", 6) << padded(word(evaluator::policy_shown(v)), 14)
              << padded(v.accepted ? "yes" : "no", 8) << speed << "\n";
    const std::string reason = v.accepted ? "" : reason_of(v);
    if (!reason.empty()) std::cout << "    " << reason << "\n";
  }
  std::cout << judged << " judged: call " << call << ", exe " << exe << ", strict " << strict << ", accepted "
            << accepted << std::endl;
}

Result<void> write_results(const Session& session, const fs::path& folder) {
  return transitions::write_whole_file(folder / "results.jsonl", [&session](std::ostream& out) -> Result<void> {
    for (size_t i = 0; i < session.submissions.size(); ++i) {
      const auto& result = session.judged[i].verdict;
      if (!result || !*result) continue;
      json line = evaluator::verdict_to_json(**result);
      line["submission"] = session.submissions[i].label;
      out << line.dump(-1, ' ', false, json::error_handler_t::replace) << "\n";
    }
    return {};
  });
}

Result<std::vector<std::string>> parse_stages(const std::string& text) {
  const std::vector<std::string> all = {"call", "exe", "perf"};
  if (text.empty()) return all;
  std::vector<std::string> stages;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (std::find(all.begin(), all.end(), word) == all.end()) {
      return fail(ErrorKind::bad_input,
                  "--stages: unknown stage " + agents::in_quotes(word) + agents::suggestion(word, all));
    }
    // A stage needs those before it.
    if (stages.size() >= all.size() || word != all[stages.size()]) {
      return fail(ErrorKind::bad_input, "--stages " + text + ": must be call, call,exe or call,exe,perf.");
    }
    stages.push_back(word);
  }
  return stages;
}

int run(const Options& options) {
  const auto suite = load_suite(options.suite);
  if (!suite) return report_error(suite.error());
  auto stages = parse_stages(options.stages);
  if (!stages) return report_error(stages.error());
  if (!options.database.empty() && stages->size() < 3) {
    return report_error(Error{ErrorKind::bad_input, "--db keeps whole verdicts: leave out --stages."});
  }
  if (options.device.find(',') != std::string::npos) {
    return report_error(Error{ErrorKind::bad_input, "--device: more than one device is not supported yet."});
  }
  Session session;
  auto submissions = read_submissions(options.submissions, *suite, options.task);
  if (!submissions) return report_error(submissions.error());
  for (const std::string& problem : submissions->problems) report_error(Error{ErrorKind::bad_input, problem});
  const size_t unreadable = submissions->problems.size();
  if (submissions->list.empty()) return exit_failed;
  if (!options.database.empty()) {
    if (auto usable = check_database(options.database); !usable) return report_error(usable.error());
  }
  if (!options.out.empty()) {
    std::error_code error;
    fs::create_directories(options.out, error);
    if (error) {
      return report_error(Error{ErrorKind::missing, options.out + ": cannot be made: " + error.message() + "."});
    }
  }
  const auto device = resolve_device(options.device);
  if (!device) return report_error(device.error());
  const auto evald = evald_path();
  if (!evald) return report_error(evald.error());
  const auto data = data_dir();
  if (!data) return report_error(data.error());
  session.submissions = std::move(submissions->list);
  session.judged.resize(session.submissions.size());
  session.stages = std::move(*stages);
  session.policy_off = options.policy_off;
  if (!options.database.empty()) {
    if (auto made = make_runs_folder(options.database); !made) return report_error(made.error());
    auto store = transitions::Store::open(options.database);
    if (!store) return report_error(store.error());
    session.store = std::move(*store);
  }
  JudgeOptions judge_options;
  judge_options.evald = *evald;
  judge_options.device = *device;
  judge_options.tasks = suite->root;
  judge_options.suite = options.suite;
  judge_options.jobs = options.jobs;
  judge_options.target = options.target;
  judge_options.hide = folders_to_hide(options.database, {}, *data, *evald);

  const WorkEnd end =
      run_interruptibly(session.io, judge_all(&session, judge_options), [&session] { session.judge.reset(); });
  std::optional<Error> store_error;
  if (session.store != nullptr) {
    session.io.restart();
    std::optional<Result<void>> closed;
    asio::co_spawn(session.io, session.store->close(), [&](std::exception_ptr e, Result<void> result) {
      if (e) result = fail(ErrorKind::io, options.database + ": could not be closed.");
      closed = std::move(result);
    });
    session.io.run();
    session.store.reset();
    if (closed && !*closed) store_error = closed->error();
  }
  // However it ended: what was judged is handed over.
  const bool any_judged = std::any_of(session.judged.begin(), session.judged.end(),
                                      [](const Judged& judged) { return judged.verdict && *judged.verdict; });
  if (any_judged || end.result) {
    print_table(session);
    const bool any_failed = std::any_of(session.judged.begin(), session.judged.end(), [](const Judged& judged) {
      return judged.verdict && *judged.verdict && !(*judged.verdict)->accepted;
    });
    if (any_failed && options.out.empty()) std::fprintf(stderr, "for each case of each kernel: --out DIR\n");
    if (!options.out.empty()) {
      if (auto written = write_results(session, options.out); !written) return report_error(written.error());
      std::fprintf(stderr, "%s is written\n", (fs::path(options.out) / "results.jsonl").c_str());
    }
  }
  if (end.interrupted) {
    std::fprintf(stderr, "interrupted; run the same command again%s\n",
                 options.database.empty() ? "" : ": what was judged is found in the database");
    return exit_interrupted;
  }
  if (!end.result) return report_error(end.result.error());
  if (store_error) return report_error(*store_error);
  for (const Judged& judged : session.judged) {
    if (judged.verdict && !*judged.verdict) return report_error(judged.verdict->error()), exit_failed;
  }
  if (unreadable > 0) {
    std::fprintf(stderr, "anneal: %s could not be read\n",
                 agents::count_of(static_cast<long long>(unreadable), "submission", "submissions").c_str());
    return exit_failed;
  }
  return exit_done;
}

}  // namespace

void add_eval(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("eval", "Judge kernels: a .py file, a folder of them, or JSONL");
  command->add_option("SUBMISSIONS", options->submissions, "what to judge")->required();
  command->add_option("--suite", options->suite, "anneal")->capture_default_str();
  command->add_option("--device", options->device, "cpu, cuda:0 or cuda")->capture_default_str();
  command->add_option("--target", options->target, "cpu: the architecture kernels are compiled for")
      ->capture_default_str();
  command->add_option("--stages", options->stages, "call, call,exe or call,exe,perf")->check(not_empty);
  command->add_option("--jobs", options->jobs, "evaluations at once (default: the judge's own choice)")
      ->check(CLI::Range(0, 1024));
  command->add_option("--db", options->database, "keep verdicts in FILE and find them there again")->check(not_empty);
  command->add_option("--out", options->out, "a folder for results.jsonl: every verdict with its cases")
      ->check(not_empty);
  command->add_option("--task", options->task, "the task that .py submissions are for")->check(not_empty);
  command->add_flag("--policy-off", options->policy_off, "time kernels that the policy refuses, too");
  command->footer("Exit code 0: every submission was judged, however many kernels failed; the last line counts them.");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace anneal::tools
