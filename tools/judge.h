// Starting the judge's daemon for one device.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "async/result.h"
#include "evaluator/judge.h"

namespace anneal::tools {

struct JudgeOptions {
  std::filesystem::path evald;
  std::string device = "cpu";  // cpu | cuda:N
  std::filesystem::path tasks;
  std::string suite = "anneal";
  std::string target = "sm_90";
  int jobs = 0;  // 0: the daemon's own choice
};

// Starts anneal-evald and waits for its hello. Errors say what the machine lacks.
boost::asio::awaitable<Result<std::unique_ptr<evaluator::Judge>>> start_judge(JudgeOptions options);

}  // namespace anneal::tools
