// A scripted model, a judge that reads its verdict from the kernel's text, and a store that stops: what the methods and
// the orchestrator are tested with.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "agents/orchestrator.h"
#include "async/semaphore.h"
#include "async/sha256.h"
#include "evaluator/judge.h"
#include "llm/client.h"
#include "tests/temporary_folder.h"
#include "transitions/database.h"
#include "transitions/export.h"
#include "transitions/harvest.h"
#include "transitions/store.h"

namespace anneal::agents::testing {

namespace fs = std::filesystem;
namespace asio = boost::asio;
using asio::awaitable;

using test::TemporaryFolder;

inline std::string key_of(const llm::CallPlace& place) {
  return place.task + "|" + place.method + "|" + place.role + "|" + std::to_string(place.iteration) + "|" +
         std::to_string(place.slot) + "|" + std::to_string(place.sample);
}

// What a model would send back. A text of "!" is an api_error; one behind "?" comes without token counts.
using Script = std::function<std::string(const llm::Request&)>;

inline std::string fenced(const std::string& code) { return "I do it with a kernel.\n```python\n" + code + "\n```\n"; }

class ScriptedLlm : public llm::Client {
 public:
  ScriptedLlm(llm::ExchangeStore& store, Script script) : store_(store), script_(std::move(script)) {}

  awaitable<Result<llm::Reply>> complete(llm::Request request) override {
    const std::string hash = llm::request_sha256(request, "scripted");
    auto found = co_await store_.find_reply(request.id, hash);
    if (!found) co_return tl::unexpected(found.error());
    if (*found) co_return **found;
    if (request.may_spend && !request.may_spend()) co_return fail(ErrorKind::budget, "spent");
    auto begun = co_await store_.begin_call(request, hash);
    if (!begun) co_return tl::unexpected(begun.error());
    ++asked[key_of(request.place)];
    order.push_back(key_of(request.place));
    prompts[key_of(request.place)] = request.messages.at(1).content;
    co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
    llm::Reply reply;
    reply.text = script_(request);
    reply.ok = reply.text != "!";
    reply.finish_reason = "stop";
    if (!reply.ok) {
      reply.text.clear();
      reply.error = "503 from the server";
    }
    if (reply.text.starts_with("?")) {
      reply.text.erase(0, 1);
    } else {
      reply.usage.prompt_tokens = 100;
      reply.usage.completion_tokens = 10;
    }
    counters_.prompt_tokens += 100;
    counters_.completion_tokens += 10;
    ++counters_.calls;
    auto finished = co_await store_.finish_call(request.id, reply);
    if (!finished) co_return tl::unexpected(finished.error());
    answered[key_of(request.place)] += reply.ok;
    co_return reply;
  }
  const llm::Counters& counters() const override { return counters_; }

  std::map<std::string, int> asked, answered;
  std::vector<std::string> order;
  std::map<std::string, std::string> prompts;

 private:
  llm::ExchangeStore& store_;
  Script script_;
  llm::Counters counters_;
};

// "# ok 1.5": accepted, with speedup 1.5 (without a number: not measured). "# call compile_error", "# exe tail": fails
// there. "# fault": the machine fails.
class TableJudge : public evaluator::Judge {
 public:
  TableJudge() {
    facts_.device = "cpu";
    facts_.device_name = "triton interpreter, sm_90";
    facts_.triton = "3.6.0";
    facts_.settings_sha256 = sha256_hex("settings");
  }
  explicit TableJudge(const std::string& device_name) : TableJudge() {
    if (!device_name.empty()) facts_.device_name = device_name;
  }
  void limit_to(asio::io_context& io, int jobs) { permits_.emplace(io.get_executor(), jobs); }
  awaitable<Result<evaluator::Verdict>> evaluate(evaluator::EvaluationRequest request) override {
    std::optional<Semaphore::Permit> permit;
    if (permits_) permit.emplace(co_await permits_->acquire());
    ++judged[request.task + "|" + request.code];
    co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
    evaluator::Verdict verdict;
    verdict.task = request.task;
    verdict.suite = "anneal";
    verdict.code_sha256 = sha256_hex(request.code);
    verdict.device = facts_.device;
    verdict.device_name = facts_.device_name;
    verdict.settings_sha256 = facts_.settings_sha256;
    verdict.draw = "00";
    std::istringstream words(request.code.substr(request.code.find("# ") + 2));
    std::string stage, detail;
    words >> stage;
    std::getline(words, detail);
    if (!detail.empty()) detail.erase(0, 1);
    if (stage == "fault") co_return fail(ErrorKind::internal, "the judge was lost");
    verdict.call.ok = stage != "call";
    verdict.call.failure_class = verdict.call.ok ? "ok" : detail;
    if (verdict.call.ok) {
      verdict.exe.ok = verdict.exe.strict_ok = stage == "ok";
      verdict.exe.failure_class = verdict.exe.ok ? "ok" : detail;
    }
    verdict.accepted = stage == "ok";
    verdict.perf.status = "not_measured";
    if (stage == "ok" && !detail.empty()) {
      verdict.perf.status = "measured";
      verdict.perf.speedup = std::stod(detail);
      verdict.perf.verdict = *verdict.perf.speedup > 1 ? "FAST" : "SLOW";
    }
    if (!verdict.accepted) verdict.feedback = stage + " failed: " + detail + ": case one (standard)";
    co_return verdict;
  }
  const evaluator::DeviceFacts& facts() const override { return facts_; }

  std::map<std::string, int> judged;

 private:
  evaluator::DeviceFacts facts_;
  std::optional<Semaphore> permits_;
};

// Passes on to a real store until `stop_after` calls were made; then every call fails, as if the process had ended.
class StoppingStore : public transitions::Store {
 public:
  StoppingStore(transitions::Store& store, long stop_after) : store_(store), left_(stop_after) {}
  long calls() const { return calls_; }
  std::function<void()> at_the_stop;  // when the first call fails

  awaitable<Result<void>> put_experiment(transitions::ExperimentRow row) override {
    if (stopped()) co_return stop();
    co_return co_await store_.put_experiment(std::move(row));
  }
  awaitable<Result<void>> put_task(transitions::TaskRow row) override {
    if (stopped()) co_return stop();
    co_return co_await store_.put_task(std::move(row));
  }
  awaitable<Result<void>> put_trajectory(transitions::TrajectoryRow row) override {
    if (stopped()) co_return stop();
    co_return co_await store_.put_trajectory(std::move(row));
  }
  awaitable<Result<void>> put_device(transitions::DeviceRow row) override {
    if (stopped()) co_return stop();
    co_return co_await store_.put_device(std::move(row));
  }
  awaitable<Result<void>> put_evaluation(transitions::EvaluationRow row) override {
    if (stopped()) co_return stop();
    co_return co_await store_.put_evaluation(std::move(row));
  }
  awaitable<Result<void>> put_attempt(transitions::AttemptRow row) override {
    if (stopped()) co_return stop();
    co_return co_await store_.put_attempt(std::move(row));
  }
  awaitable<Result<void>> put_event(std::string subject, std::string kind, std::string data) override {
    if (stopped()) co_return stop();
    co_return co_await store_.put_event(std::move(subject), std::move(kind), std::move(data));
  }
  awaitable<Result<std::optional<transitions::ExperimentRow>>> find_experiment() override {
    if (stopped()) co_return stop();
    co_return co_await store_.find_experiment();
  }
  awaitable<Result<std::optional<transitions::AttemptRow>>> find_attempt(std::string id) override {
    if (stopped()) co_return stop();
    co_return co_await store_.find_attempt(std::move(id));
  }
  awaitable<Result<std::optional<transitions::EvaluationRow>>> find_evaluation(std::string id) override {
    if (stopped()) co_return stop();
    co_return co_await store_.find_evaluation(std::move(id));
  }
  awaitable<Result<std::vector<transitions::TrajectoryState>>> trajectory_states() override {
    if (stopped()) co_return stop();
    co_return co_await store_.trajectory_states();
  }
  awaitable<Result<std::optional<llm::Reply>>> find_reply(std::string id, std::string hash) override {
    if (stopped()) co_return stop();
    co_return co_await store_.find_reply(std::move(id), std::move(hash));
  }
  awaitable<Result<void>> begin_call(llm::Request request, std::string hash) override {
    if (stopped()) co_return stop();
    co_return co_await store_.begin_call(std::move(request), std::move(hash));
  }
  awaitable<Result<void>> finish_call(std::string id, llm::Reply reply) override {
    if (stopped()) co_return stop();
    co_return co_await store_.finish_call(std::move(id), std::move(reply));
  }
  awaitable<Result<void>> close() override { co_return co_await store_.close(); }

 private:
  bool stopped() {
    ++calls_;
    if (left_ == 0 && at_the_stop) at_the_stop();
    return left_-- <= 0;
  }
  static tl::unexpected<Error> stop() { return fail(ErrorKind::io, "stopped"); }
  transitions::Store& store_;
  long left_;
  long calls_ = 0;
};

class Quiet : public Progress {
 public:
  void on_event(const nlohmann::json& event) override { events.push_back(event); }
  std::vector<nlohmann::json> events;
};

inline Task make_task(const std::string& id, const std::string& category = "Activation") {
  Task task;
  task.id = task.stem = id;
  task.category = category;
  task.precision = "fp32";
  task.signature = id + "(x: Tensor) -> Tensor";
  task.description = "Does " + id + ".";
  task.comparison = "tolerance";
  task.difficulty = 1;
  task.file_sha256 = sha256_hex(id);
  return task;
}

inline ExperimentConfig make_config(const std::vector<MethodConfig>& methods) {
  ExperimentConfig config;
  config.experiment = "test";
  llm::ModelConfig model;
  model.name = "scripted";
  model.api = "openai";
  model.model = "scripted-1";
  config.models.push_back(model);
  config.methods = methods;
  return config;
}

inline MethodConfig make_method(const std::string& name, int iterations = 1, int candidates = 1, int seeds = 1) {
  MethodConfig method;
  method.name = name;
  method.model = "scripted";
  method.iterations = iterations;
  method.candidates = candidates;
  method.seeds = seeds;
  return method;
}

// One run on a database, as `anneal run` does it.
struct RunResult {
  std::optional<Result<RunSummary>> summary;
  std::map<std::string, int> asked, answered, judged;
  std::vector<std::string> order;
  std::map<std::string, std::string> prompts;
  std::vector<nlohmann::json> events;
  long store_calls = 0;
  size_t judged_at_the_stop = 0;

  const RunSummary& ok() const { return summary->value(); }
};

inline RunResult run_once(const fs::path& file, const ExperimentConfig& config, const std::vector<Task>& tasks,
                          const Script& script, RunOptions options = {}, long stop_after = 1L << 40,
                          const std::string& device_name = "", int jobs = 0) {
  RunResult result;
  asio::io_context io(1);
  auto store = transitions::Store::open(file);
  EXPECT_TRUE(store.has_value()) << (store ? "" : store.error().message);
  if (!store) return result;
  StoppingStore stopping(**store, stop_after);
  ScriptedLlm llm(stopping, script);
  TableJudge judge(device_name);
  if (jobs > 0) judge.limit_to(io, jobs);
  stopping.at_the_stop = [&] { result.judged_at_the_stop = judge.judged.size(); };
  const auto prompts = Prompts::load(fs::path(ANNEAL_SOURCE_DIR) / "prompts");
  EXPECT_TRUE(prompts.has_value()) << (prompts ? "" : prompts.error().message);
  if (!prompts) return result;
  Quiet quiet;
  Engine engine{stopping, llm, judge, *prompts, quiet};
  asio::co_spawn(io, run_experiment(engine, config, plan_trajectories(config, tasks, Shard{}), std::move(options)),
                 [&](std::exception_ptr e, Result<RunSummary> summary) {
                   if (e) std::rethrow_exception(e);
                   result.summary.emplace(std::move(summary));
                 });
  io.run();
  io.restart();
  asio::co_spawn(io, (*store)->close(), [](std::exception_ptr e, Result<void> closed) {
    EXPECT_FALSE(e);
    EXPECT_TRUE(closed.has_value());
  });
  io.run();
  result.asked = llm.asked;
  result.answered = llm.answered;
  result.order = llm.order;
  result.prompts = llm.prompts;
  result.judged = judge.judged;
  result.events = quiet.events;
  result.store_calls = stopping.calls();
  return result;
}

inline std::string canonical_export(const fs::path& file) {
  auto database = transitions::Database::open(file, transitions::Database::Mode::create_or_open);
  if (!database) return "cannot open: " + database.error().message;
  if (auto rows = transitions::harvest(**database); !rows) return "cannot harvest: " + rows.error().message;
  std::ostringstream out;
  transitions::ExportOptions options;
  options.canonical = true;
  if (auto lines = transitions::write_transitions_jsonl(**database, out, options); !lines) return lines.error().message;
  return out.str();
}

// The rows of a query, as text.
inline std::vector<std::string> rows(const fs::path& file, const std::string& sql) {
  auto database = transitions::Database::open(file, transitions::Database::Mode::read_only);
  std::vector<std::string> lines;
  if (!database) return lines;
  SQLite::Statement statement((*database)->sql(), sql);
  while (statement.executeStep()) {
    std::string line;
    for (int i = 0; i < statement.getColumnCount(); ++i) {
      line += (i == 0 ? "" : "|") + statement.getColumn(i).getString();
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace anneal::agents::testing
