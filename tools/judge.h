// Starting the judge's daemon for one device.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "async/result.h"
#include "evaluator/client.h"
#include "evaluator/judge.h"

namespace anneal::tools {

struct JudgeOptions {
  std::filesystem::path evald;
  std::string device = "cpu";  // cpu | cuda:N
  std::filesystem::path tasks;
  std::string suite = "anneal";
  std::string target = "sm_90";
  int jobs = 0;                             // 0: the daemon's own choice
  std::vector<std::filesystem::path> hide;  // folders that no kernel may read; see folders_to_hide()
};

// What is to be hidden from kernels: the folder of `database` (empty: none), `recordings`, and in the data folder the
// recordings and the kernels of tests. Says on stderr when the database's folder is one that kernels have to see.
std::vector<std::filesystem::path> folders_to_hide(const std::filesystem::path& database,
                                                   const std::vector<std::filesystem::path>& recordings,
                                                   const std::filesystem::path& data,
                                                   const std::filesystem::path& evald);

// Starts anneal-evald and waits for its hello. Errors say what the machine lacks.
boost::asio::awaitable<Result<std::unique_ptr<evaluator::Client>>> start_client(JudgeOptions options);
boost::asio::awaitable<Result<std::unique_ptr<evaluator::Judge>>> start_judge(JudgeOptions options);

}  // namespace anneal::tools
