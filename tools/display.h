// How a run shows its progress: an overprinted line on a terminal, plain lines elsewhere, and JSON events on stdout.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "agents/progress.h"
#include "llm/client.h"

namespace anneal::tools {

class Display : public agents::Progress {
 public:
  enum class Mode { line, plain, none };

  // auto: line when stderr is a terminal, else plain.
  static Mode mode_of(const std::string& name);

  Display(boost::asio::io_context& io, Mode mode, bool events);
  ~Display() override;

  // From now on the line also shows calls and tokens.
  void watch(const llm::Counters* counters) { counters_ = counters; }
  void on_event(const nlohmann::json& event) override;
  // Ends the overprinted line and stops ticking, so that the loop can run out of work.
  void stop();
  // A line of its own, on stderr, above the progress line.
  void say(const std::string& text);

 private:
  void tick();
  void tell_of_back_off();
  std::string summary() const;
  void overprint();

  Mode mode_;
  bool events_;  // JSON on stdout
  boost::asio::steady_timer timer_;
  const llm::Counters* counters_ = nullptr;
  std::chrono::steady_clock::time_point started_;
  bool ticking_ = false;
  bool changed_ = false;
  size_t shown_ = 0;  // width of the overprinted line
  int planned_ = 0, ended_ = 0, failed_ = 0, running_ = 0;
  long long attempts_ = 0, accepted_ = 0;
  std::optional<std::chrono::steady_clock::time_point> told_of_back_off_;
};

}  // namespace anneal::tools
