// The judge over the wire: starts anneal-evald for one device and speaks framed JSON with it (protocol.h).
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "async/result.h"
#include "evaluator/judge.h"
#include "evaluator/lint_report.h"

namespace anneal::evaluator {

struct DaemonOptions {
  std::filesystem::path program;  // anneal-evald
  std::string device = "cpu";     // "cpu", "cuda:0"
  std::filesystem::path tasks;    // the suite's folder
  std::string suite = "anneal";
  int jobs = 0;                             // evaluations at once; 0: the daemon's own choice
  std::vector<std::filesystem::path> hide;  // existing folders that no candidate may see, none inside another
  std::string target;                       // "sm_90": what the cpu device compiles for; empty: the daemon's own choice
  std::chrono::milliseconds hello_timeout{120'000};
  // The daemon bounds every stage itself; one that has not answered by then hangs, and is killed and replaced.
  std::chrono::milliseconds evaluation_timeout{3'600'000};
  int max_restarts = 5;
};

// Of "NAME=value" strings, those that a daemon is given: what Python, CUDA and Triton need, and no API key.
std::vector<std::string> daemon_environment(const std::vector<std::string>& environment);

// Lives on one loop. A daemon that is lost (it died, or broke the protocol) is replaced, at most max_restarts times
// without a verdict in between, and the requests that were with it are sent once more; a request lost twice becomes an
// Error. A daemon that says that its device cannot be used any more is not replaced.
class Client final : public Judge {
 public:
  // Starts the daemon and waits for its hello. ErrorKind::missing: the machine lacks something (program, device,
  // torch), and the message says what; timeout: no hello in time.
  static boost::asio::awaitable<Result<std::unique_ptr<Client>>> start(DaemonOptions options);

  // Only after every evaluate() and lint() has returned. Asks the daemon to end; the loop runs on until it has, which
  // is killed after a few seconds. If the loop does not run any more, it is killed with the loop's io_context.
  ~Client() override;

  // Code that is too long for a frame (protocol.h) fails call with class too_long, without the daemon.
  boost::asio::awaitable<Result<Verdict>> evaluate(EvaluationRequest request) override;
  const DeviceFacts& facts() const override;
  bool lost() const override;

  // Has the daemon lint a task of its suite. Takes turns with evaluations; an Error is the machine's, as of evaluate().
  boost::asio::awaitable<Result<LintReport>> lint(std::string task);

  // Daemons that were lost and replaced so far.
  int restarts() const;

 private:
  struct State;
  explicit Client(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace anneal::evaluator
