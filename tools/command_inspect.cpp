// anneal status, show, report, export: what a database holds.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "agents/suggest.h"
#include "agents/text.h"
#include "tools/command.h"
#include "transitions/database.h"
#include "transitions/export.h"
#include "transitions/inspect.h"
#include "transitions/records.h"
#include "transitions/report.h"
#include "transitions/whole_file.h"

namespace anneal::tools {

namespace fs = std::filesystem;
using transitions::Database;

namespace {

Result<std::unique_ptr<Database>> open_to_read(const std::string& file) {
  if (auto there = require_file(file); !there) return tl::unexpected(there.error());
  return Database::open(file, Database::Mode::read_only);
}

// How far a database has come.
struct Progress {
  long long started = 0, unfinished = 0;  // trajectories
  long long judged = 0, planned = 0;      // attempts; one whose reply held no kernel counts as judged
  long long evaluations = 0;

  void operator+=(const Progress& other) {
    started += other.started;
    unfinished += other.unfinished;
    judged += other.judged;
    planned += other.planned;
    evaluations += other.evaluations;
  }
};

Result<Progress> progress_of(Database& database) {
  try {
    Progress progress;
    progress.evaluations = database.sql().execAndGet("SELECT count(*) FROM evaluation").getInt64();
    std::map<std::string, long long> planned;
    SQLite::Statement settings(database.sql(),
                               "SELECT id, coalesce(json_extract(settings_json, '$.iterations'), 1) * "
                               "coalesce(json_extract(settings_json, '$.candidates'), 1) FROM trajectory");
    while (settings.executeStep()) planned[settings.getColumn(0).getString()] = settings.getColumn(1).getInt64();
    const transitions::Records records = transitions::read_records(database);
    for (const auto& trajectory : records.trajectories) {
      const auto attempts = static_cast<long long>(trajectory.attempts.size());
      const bool done = trajectory.state_name() == "done";
      if (trajectory.state_name() != "not_started") ++progress.started;
      if (!done) ++progress.unfinished;
      progress.planned += done ? attempts : std::max(attempts, planned[trajectory.id]);
      for (const size_t index : trajectory.attempts) progress.judged += !records.attempts[index].missing();
    }
    return progress;
  } catch (const std::exception& error) {
    return tl::unexpected<Error>(transitions::database_error(database.file(), error));
  }
}

// Instead of an empty list.
std::string nothing_started(const Progress& progress, const std::string& file) {
  if (progress.evaluations > 0) {
    return "no trajectories; " + agents::count_of(progress.evaluations, "verdict", "verdicts") + " of anneal eval\n";
  }
  return "nothing has been started yet; run again: anneal run CONFIG.yaml --db " + file + "\n";
}

// A damaged database must not get raw bytes to a terminal.
void print(const std::string& text) {
  std::cout << agents::clean_text(text, std::string::npos) << std::flush;  // main() looks whether stdout took it
}

// Why `selector` shows nothing, for what show_text() only refuses: too short a beginning of ids, or no name at all.
std::string unknown_selector(Database& database, const std::string& selector) {
  constexpr size_t least = 4;
  try {
    const transitions::Records records = transitions::read_records(database);
    std::set<std::string> tasks;
    long long fits = 0;
    for (const auto& trajectory : records.trajectories) {
      tasks.insert(trajectory.task);
      fits += trajectory.id.starts_with(selector);
    }
    for (const auto& attempt : records.attempts) fits += attempt.id.starts_with(selector);
    if (fits > 0 && selector.size() >= least) return "";
    if (fits > 0) {
      return agents::in_quotes(selector) + " is the beginning of " + agents::count_of(fits, "id", "ids") +
             "; give at least " + std::to_string(least) + " characters.";
    }
    return "No task, trajectory or attempt " + agents::in_quotes(selector) + " in " + database.file().string() +
           agents::suggestion(selector, std::vector<std::string>(tasks.begin(), tasks.end()));
  } catch (const std::exception&) {
    return "";
  }
}

// To `path`, whole or not at all; "-" is stdout.
int write_to(const std::string& path, const std::string& text) {
  if (path == "-") {
    print(text);
    return exit_done;
  }
  const auto written = transitions::write_whole_file(path, [&text](std::ostream& out) -> Result<void> {
    out << text;
    return {};
  });
  return written ? exit_done : report_error(written.error());
}

}  // namespace

void add_status(CLI::App& app, int& exit_code) {
  auto file = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("status", "What is done, running and left; calls and tokens");
  command->add_option("DB", *file, "the experiment's file, e.g. runs/quickstart.db")->required();
  command->callback([file, &exit_code] {
    auto database = open_to_read(*file);
    if (!database) {
      exit_code = report_error(database.error());
      return;
    }
    const auto progress = progress_of(**database);
    auto text = transitions::status_text(**database);
    if (!progress || !text) {
      exit_code = report_error(progress ? text.error() : progress.error());
      return;
    }
    if (progress->started == 0 && progress->planned == 0) *text = "";
    if (progress->started == 0) *text += nothing_started(*progress, *file);
    print(*text);
  });
}

void add_show(CLI::App& app, int& exit_code) {
  auto file = std::make_shared<std::string>();
  auto selector = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("show", "Trajectories; one's attempts; an attempt's prompt, reply, verdict, diff");
  command->add_option("DB", *file, "the experiment's file")->required();
  command->add_option("WHAT", *selector, "a task, or the (beginning of the) id of a trajectory or attempt");
  command->callback([file, selector, &exit_code] {
    auto database = open_to_read(*file);
    if (!database) {
      exit_code = report_error(database.error());
      return;
    }
    auto text = transitions::show_text(**database, *selector);
    if (text && text->empty()) {
      const auto progress = progress_of(**database);
      if (!progress) {
        exit_code = report_error(progress.error());
        return;
      }
      *text = nothing_started(*progress, *file);
    }
    if (!text && text.error().kind == ErrorKind::bad_input) {
      if (const std::string better = unknown_selector(**database, *selector); !better.empty()) {
        text = fail(ErrorKind::bad_input, better);
      }
    }
    if (text) {
      print(*text);
    } else {
      exit_code = report_error(text.error());
    }
  });
}

void add_report(CLI::App& app, int& exit_code) {
  struct Options {
    std::vector<std::string> files;
    std::string json, html, scope = "all";
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("report", "Rates, transitions, repair bias and speedup decay, by method");
  command->add_option("DB", options->files, "one or more experiment files")->required();
  command->add_option("--json", options->json, "write the report as JSON to FILE, or to stdout with -")
      ->check(not_empty);
  command->add_option("--html", options->html)->group("");
  command->add_option("--scope", options->scope)->group("");
  command->callback([options, &exit_code] {
    if (!options->html.empty() || options->scope != "all") {
      const char* what = options->html.empty() ? "--scope" : "--html";
      exit_code =
          report_error(Error{ErrorKind::bad_input, std::string("'anneal report ") + what + "' is not supported yet."});
      return;
    }
    std::vector<fs::path> files;
    for (const std::string& file : options->files) {
      if (auto there = require_file(file); !there) {
        exit_code = report_error(there.error());
        return;
      }
      files.emplace_back(file);
    }
    if (!options->json.empty()) {
      if (auto there = check_folder_of(options->json); !there) {
        exit_code = report_error(there.error());
        return;
      }
    }
    Progress progress;
    for (const std::string& file : options->files) {
      auto database = open_to_read(file);
      if (!database) {
        exit_code = report_error(database.error());
        return;
      }
      const auto one = progress_of(**database);
      if (!one) {
        exit_code = report_error(one.error());
        return;
      }
      progress += *one;
    }
    const auto report = transitions::report(files);
    if (!report) {
      exit_code = report_error(report.error());
      return;
    }
    if (!options->json.empty()) {
      exit_code = write_to(options->json, report->dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    }
    if (options->json == "-" || exit_code != exit_done) return;
    const std::string share = std::to_string(progress.judged) + " of " +
                              agents::count_of(progress.planned, "planned attempt", "planned attempts") + " judged";
    if (progress.judged == 0) {
      print(progress.planned == 0 ? nothing_started(progress, options->files[0])
                                  : "nothing has been judged yet (" + share + "; anneal status says how far it is)\n");
      return;
    }
    std::string text = transitions::print_report(*report);
    if (progress.unfinished > 0) text = "unfinished: figures are partial (" + share + ")\n" + text;
    print(text);
  });
}

void add_export(CLI::App& app, int& exit_code) {
  struct Options {
    std::string file, what, format = "jsonl", out;
    bool canonical = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("export", "Transitions as a data set, one JSON object a line");
  command->add_option("DB", options->file, "the experiment's file")->required();
  command->add_option("--what", options->what, "transitions")->required();
  command->add_option("--format", options->format, "jsonl")->capture_default_str();
  command->add_option("--out", options->out, "the file to write, or - for stdout")->required()->check(not_empty);
  command->add_flag("--canonical", options->canonical,
                    "without ids and times: on the cpu device a resumed and an undisturbed run give the same bytes");
  command->callback([options, &exit_code] {
    const std::vector<std::string> whats = {"transitions", "attempts", "evaluations", "dataset"};
    const std::vector<std::string> formats = {"jsonl", "csv", "parquet", "kbx"};
    const auto known = [](const std::vector<std::string>& list, const std::string& word) {
      return std::find(list.begin(), list.end(), word) != list.end();
    };
    std::string problem;
    if (!known(whats, options->what)) {
      problem =
          "Unknown --what " + agents::in_quotes(options->what) + agents::suggestion(options->what, {"transitions"});
    } else if (!known(formats, options->format)) {
      problem =
          "Unknown --format " + agents::in_quotes(options->format) + agents::suggestion(options->format, {"jsonl"});
    } else if (options->what != "transitions") {
      problem = "'anneal export --what " + options->what + "' is not supported yet.";
    } else if (options->format != "jsonl") {
      problem = "'anneal export --format " + options->format + "' is not supported yet.";
    }
    if (!problem.empty()) {
      exit_code = report_error(Error{ErrorKind::bad_input, problem});
      return;
    }
    if (auto there = check_folder_of(options->out); !there) {
      exit_code = report_error(there.error());
      return;
    }
    auto database = open_to_read(options->file);
    if (!database) {
      exit_code = report_error(database.error());
      return;
    }
    transitions::ExportOptions how;
    how.canonical = options->canonical;
    const auto lines = transitions::export_transitions_jsonl(**database, options->out, how);
    if (!lines) {
      exit_code = report_error(lines.error());
      return;
    }
    std::cout.flush();
    if (options->out != "-") std::fprintf(stderr, "%d transitions written to %s\n", *lines, options->out.c_str());
  });
}

}  // namespace anneal::tools
