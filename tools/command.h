// What the commands of `anneal` share. Each command is one file; it adds its subcommand and leaves an exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "agents/suite.h"
#include "async/result.h"
#include "evaluator/judge.h"

namespace anneal::tools {

// docs/interface.md.
enum ExitCode {
  exit_done = 0,
  exit_failed = 1,
  exit_usage = 2,
  exit_missing = 3,
  exit_interrupted = 4,
  exit_budget = 5,
};

int exit_code_of(ErrorKind kind);

// For ->check(): the value of an option that names something. An empty one, as an unset variable leaves it, would
// silently mean the default.
std::string not_empty(const std::string& value);

// On stderr, when kernels are judged without all of the sandbox.
void warn_of_sandbox(const evaluator::DeviceFacts& facts);

// "anneal: <message>" on stderr, one line, control characters stripped; returns the exit code.
int report_error(const Error& error);

// Where tasks/ and prompts/ are: ANNEAL_DATA_DIR, else share/anneal beside the binary's folder, else the source tree
// that this binary was built from.
Result<std::filesystem::path> data_dir();

// The judge's daemon: ANNEAL_EVALD, else anneal-evald beside this binary.
Result<std::filesystem::path> evald_path();

// The suite of that name, read from data_dir().
Result<agents::Suite> load_suite(const std::string& name);

// The tasks named, in the suite's order; with no names all of them, forms beyond the published ones only with `extra`.
// ErrorKind::bad_input for an unknown name.
Result<std::vector<agents::Task>> choose_tasks(const agents::Suite& suite, const std::vector<std::string>& names,
                                               bool extra);

// "cuda" as the one GPU of this machine; cpu and cuda:N as they are. An error when the device is not there.
Result<std::string> resolve_device(const std::string& device);
int gpu_count();

// Makes runs/, the default folder of experiments, when `file` is to lie there. No other folder is made for a database.
Result<void> make_runs_folder(const std::filesystem::path& file);

// An existing database that a command only reads. Else ErrorKind::missing.
Result<void> require_file(const std::filesystem::path& file);

// Whether `run` and `eval` can use the database `file`, which need not be there yet. Makes nothing.
Result<void> check_database(const std::filesystem::path& file);

// That a file can be made in the folder of `path`; the error names both. "-" is stdout.
Result<void> check_folder_of(const std::filesystem::path& path);

void add_run(CLI::App& app, int& exit_code);
void add_eval(CLI::App& app, int& exit_code);
void add_status(CLI::App& app, int& exit_code);
void add_show(CLI::App& app, int& exit_code);
void add_report(CLI::App& app, int& exit_code);
void add_export(CLI::App& app, int& exit_code);
void add_tasks(CLI::App& app, int& exit_code);
void add_lint(CLI::App& tasks_command, int& exit_code);  // of `tasks`
void add_doctor(CLI::App& app, int& exit_code);

}  // namespace anneal::tools
