// anneal status, show, report, export: what a database holds.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "agents/suggest.h"
#include "agents/text.h"
#include "tools/command.h"
#include "transitions/database.h"
#include "transitions/export.h"
#include "transitions/inspect.h"
#include "transitions/report.h"

namespace anneal::tools {

namespace fs = std::filesystem;
using transitions::Database;

namespace {

Result<std::unique_ptr<Database>> open_to_read(const std::string& file) {
  if (auto there = require_file(file); !there) return tl::unexpected(there.error());
  return Database::open(file, Database::Mode::read_only);
}

// stdout, with a full disk or a closed pipe noticed.
int print(const std::string& text) {
  std::cout << text << std::flush;
  if (std::cout) return exit_done;
  return report_error(Error{ErrorKind::io, "Writing to stdout failed."});
}

// To `path`, whole or not at all; "-" is stdout.
int write_whole(const std::string& path, const std::string& text) {
  if (path == "-") return print(text);
  const fs::path temporary = path + ".tmp";
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) return report_error(Error{ErrorKind::missing, temporary.string() + ": cannot be written."});
  std::error_code error;
  fs::rename(temporary, path, error);
  if (error) return report_error(Error{ErrorKind::missing, path + ": cannot be written: " + error.message() + "."});
  return exit_done;
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
    const auto text = transitions::status_text(**database);
    exit_code = text ? print(*text) : report_error(text.error());
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
    const auto text = transitions::show_text(**database, *selector);
    exit_code = text ? print(*text) : report_error(text.error());
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
  command->add_option("--json", options->json, "write the report as JSON to FILE, or to stdout with -");
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
    const auto report = transitions::report(files);
    if (!report) {
      exit_code = report_error(report.error());
      return;
    }
    if (!options->json.empty()) exit_code = write_whole(options->json, report->dump(2) + "\n");
    if (options->json != "-" && exit_code == exit_done) exit_code = print(transitions::print_report(*report));
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
  command->add_option("--out", options->out, "the file to write, or - for stdout")->required();
  command->add_flag("--canonical", options->canonical,
                    "without ids and times: a resumed and an undisturbed run give the same bytes");
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
