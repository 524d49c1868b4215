// anneal: runs, shows and reports refinement experiments. Commands: docs/interface.md.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "agents/suggest.h"
#include "agents/text.h"
#include "tools/command.h"

namespace {

// `code`, unless what stands on stdout is not whole: then the command has failed, whatever else it did.
int written(int code) {
  using namespace anneal::tools;
  std::cout.flush();
  if (std::cout || code != exit_done) return code;
  return report_error({anneal::ErrorKind::io, "Writing to stdout failed."});
}

}  // namespace

int main(int argc, char** argv) {
  using namespace anneal::tools;
  // The environment holds API keys: no process of the same user may read /proc/<this>/environ.
  ::prctl(PR_SET_DUMPABLE, 0);
  // stdout is data; a reader that went away is a write error, not a silent death.
  spdlog::set_default_logger(spdlog::stderr_color_mt("anneal"));
  spdlog::set_pattern("anneal: %^%l%$: %v");
  std::signal(SIGPIPE, SIG_IGN);

  CLI::App app("anneal: experiments in which language models write and refine GPU kernels", "anneal");
  app.set_version_flag("--version", std::string("anneal ") + ANNEAL_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done, 1 something asked for failed, 2 usage or configuration, 3 the machine lacks "
      "something,\n4 interrupted (run again to go on), 5 a budget is spent.\n"
      "A kernel that fails is a result, not a failure: 'eval' and 'run' leave with 0.");
  int exit_code = exit_done;
  add_run(app, exit_code);
  add_eval(app, exit_code);
  add_status(app, exit_code);
  add_show(app, exit_code);
  add_report(app, exit_code);
  add_export(app, exit_code);
  add_tasks(app, exit_code);
  add_doctor(app, exit_code);

  constexpr std::array<std::string_view, 3> later = {"compare", "import", "merge"};
  for (const std::string_view command : later) {
    if (argc > 1 && argv[1] == command) {
      std::fprintf(stderr, "anneal: 'anneal %s' is not supported yet.\n", argv[1]);
      return exit_usage;
    }
  }
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(command->get_name());
  }
  if (argc > 1 && argv[1][0] != '-' && argv[1][0] != '\0' &&
      std::find(commands.begin(), commands.end(), argv[1]) == commands.end()) {
    return report_error({anneal::ErrorKind::bad_input, "unknown command " + anneal::agents::in_quotes(argv[1]) +
                                                           anneal::agents::suggestion(argv[1], commands)});
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    std::string given, hint;
    const std::vector<std::string> extra = app.remaining(true);
    for (const std::string& word : extra) given += (given.empty() ? "" : " ") + word;
    constexpr std::array<std::string_view, 4> keys = {"device", "target", "jobs", "suite"};
    for (size_t i = 0; i < extra.size() && app.got_subcommand("run"); ++i) {
      const std::string word = extra[i].substr(0, extra[i].find('='));
      if (!word.starts_with("--") || std::find(keys.begin(), keys.end(), word.substr(2)) == keys.end()) continue;
      const bool joined = word.size() < extra[i].size();
      if (!joined && i + 1 == extra.size()) continue;
      const std::string value = joined ? extra[i].substr(word.size() + 1) : extra[i + 1];
      hint += "; a key of the configuration is overridden with --set " + word.substr(2) + "=" + value;
    }
    report_error({anneal::ErrorKind::bad_input,
                  "not expected: " + anneal::agents::clean_text(given, 300) + anneal::agents::clean_text(hint, 300)});
    std::fprintf(stderr, "Run 'anneal --help' or 'anneal COMMAND --help' for usage.\n");
    return exit_usage;
  } catch (const CLI::ParseError& error) {
    // --help and --version come here too, with code 0.
    if (error.get_exit_code() == 0) return written(app.exit(error));
    std::fprintf(stderr, "anneal: %s\nRun 'anneal --help' or 'anneal COMMAND --help' for usage.\n",
                 anneal::agents::clean_text(error.what(), 500).c_str());
    return exit_usage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "anneal: internal error: %s\n", error.what());
    return exit_failed;
  }
  return written(exit_code);
}
