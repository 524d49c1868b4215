#include "tools/display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "agents/text.h"

namespace anneal::tools {

using nlohmann::json;

Display::Mode Display::mode_of(const std::string& name) {
  if (name == "none") return Mode::none;
  if (name == "plain") return Mode::plain;
  return isatty(STDERR_FILENO) == 1 ? Mode::line : Mode::plain;
}

Display::Display(boost::asio::io_context& io, Mode mode, bool events)
    : mode_(mode), events_(events), timer_(io), started_(std::chrono::steady_clock::now()) {}

Display::~Display() { stop(); }

void Display::on_event(const json& event) {
  const std::string kind = event.at("event");
  if (events_) std::cout << event.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
  changed_ = true;
  if (kind == "run_started") {
    planned_ = event.at("planned");
    ended_ = event.at("found_done");
    if (mode_ != Mode::none) {
      std::string text = agents::count_of(planned_, "trajectory", "trajectories");
      if (ended_ > 0) text += ", " + std::to_string(ended_) + " already done";
      say(text);
      ticking_ = true;
      tick();
    }
  } else if (kind == "trajectory_started") {
    ++running_;
  } else if (kind == "attempt") {
    ++attempts_;
    if (event.at("accepted").get<bool>()) ++accepted_;
  } else if (kind == "trajectory_done" || kind == "trajectory_failed") {
    --running_;
    ++ended_;
    const bool failed = kind == "trajectory_failed";
    if (failed) ++failed_;
    if (mode_ == Mode::plain || (failed && mode_ == Mode::line)) {
      std::string text = "[" + std::to_string(ended_) + "/" + std::to_string(planned_) + "] " +
                         event.at("task").get<std::string>() + "  " + event.at("method").get<std::string>() + "@" +
                         event.at("model").get<std::string>() + "  seed " +
                         std::to_string(event.at("seed").get<int>()) +
                         (failed ? "  failed: " + event.at("reason").get<std::string>() : "  done");
      say(text);
    }
  }
  if (mode_ == Mode::line) overprint();
}

std::string Display::summary() const {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - started_).count();
  std::string text = std::to_string(ended_) + "/" + std::to_string(planned_) + " trajectories";
  if (failed_ > 0) text += " (" + std::to_string(failed_) + " failed)";
  text += ", " + std::to_string(running_) + " running, " + std::to_string(attempts_) + " attempts, " +
          std::to_string(accepted_) + " accepted";
  if (counters_ != nullptr) {
    text += ", " + std::to_string(counters_->calls) + " calls";
    if (counters_->in_flight > 0) text += " +" + std::to_string(counters_->in_flight) + " waiting";
    if (counters_->retries > 0) text += ", " + std::to_string(counters_->retries) + " retries";
    if (counters_->backing_off > 0) text += ", " + std::to_string(counters_->backing_off) + " backing off";
    text += ", " + std::to_string(counters_->prompt_tokens + counters_->completion_tokens) + " tokens";
  }
  return text + ", " + std::to_string(seconds) + " s";
}

void Display::overprint() {
  winsize size{};
  size_t width = 80;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 10) width = size.ws_col;
  std::string text = summary().substr(0, width - 1);
  const size_t length = text.size();
  if (length < shown_) text += std::string(shown_ - length, ' ');
  shown_ = length;
  std::fprintf(stderr, "\r%s", text.c_str());
  std::fflush(stderr);
}

void Display::say(const std::string& text) {
  std::string line = agents::clean_text(text, 2000);
  for (char& c : line) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  if (shown_ > 0) {
    std::fprintf(stderr, "\r%s\r", std::string(shown_, ' ').c_str());
    shown_ = 0;
  }
  std::fprintf(stderr, "%s\n", line.c_str());
}

void Display::tick() {
  timer_.expires_after(mode_ == Mode::line ? std::chrono::seconds(1) : std::chrono::seconds(5));
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || !ticking_) return;
    tell_of_back_off();
    if (mode_ == Mode::line) overprint();
    if (mode_ == Mode::plain && changed_) say(summary());
    changed_ = false;
    tick();
  });
}

// Once a minute while calls wait for their server: a run that does nothing says why.
void Display::tell_of_back_off() {
  if (counters_ == nullptr || counters_->backing_off == 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (told_of_back_off_ && now - *told_of_back_off_ < std::chrono::minutes(1)) return;
  told_of_back_off_ = now;
  say(counters_->backing_off_because);
}

void Display::stop() {
  ticking_ = false;
  timer_.cancel();
  if (shown_ > 0) std::fprintf(stderr, "\n");
  shown_ = 0;
}

}  // namespace anneal::tools
