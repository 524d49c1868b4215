#include "tools/judge.h"

#include "evaluator/client.h"

namespace anneal::tools {

boost::asio::awaitable<Result<std::unique_ptr<evaluator::Judge>>> start_judge(JudgeOptions options) {
  evaluator::DaemonOptions daemon;
  daemon.program = options.evald;
  daemon.device = options.device;
  daemon.tasks = options.tasks;
  daemon.suite = options.suite;
  daemon.jobs = options.jobs;
  daemon.target = options.target;
  auto client = co_await evaluator::Client::start(std::move(daemon));
  if (!client) co_return tl::unexpected(client.error());
  std::unique_ptr<evaluator::Judge> judge = std::move(*client);
  co_return judge;
}

}  // namespace anneal::tools
