// Runs the real `anneal` binary as a user would.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"

namespace anneal::tools::testing {

namespace fs = std::filesystem;

using test::TemporaryFolder;

struct Outcome {
  int code = -1;  // exit code, or -signal
  std::string out, err;
};

// One child; its output goes to files, so that nothing blocks.
class Process {
 public:
  Process(const fs::path& folder, std::vector<std::string> arguments,
          std::map<std::string, std::string> environment = {}, void (*before)() = nullptr)
      : out_(folder / "stdout.txt"), err_(folder / "stderr.txt") {
    arguments.insert(arguments.begin(), std::string(ANNEAL_BIN_DIR) + "/anneal");
    environment.emplace("ANNEAL_EVALD", std::string(ANNEAL_SOURCE_DIR) + "/tests/tools/fake_evald.py");
    environment.emplace("ANNEAL_DATA_DIR", ANNEAL_SOURCE_DIR);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
      if (chdir(folder.c_str()) != 0) _exit(126);
      const int out = open(out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      const int err = open(err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(out, STDOUT_FILENO);
      dup2(err, STDERR_FILENO);
      if (before != nullptr) before();
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const { kill(pid_, number); }

  Outcome wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    Outcome outcome;
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    outcome.out = text_of(out_);
    outcome.err = text_of(err_);
    return outcome;
  }

 private:
  static std::string text_of(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  fs::path out_, err_;
  pid_t pid_ = 0;
};

inline Outcome run(const fs::path& folder, std::vector<std::string> arguments,
                   std::map<std::string, std::string> environment = {}, void (*before)() = nullptr) {
  Process process(folder, std::move(arguments), std::move(environment), before);
  return process.wait();
}

}  // namespace anneal::tools::testing
