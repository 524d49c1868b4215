// geak: generate, judge, reflect; debug until something is accepted, then optimise what was accepted. After GEAK (Wang
// et al. 2025, arXiv:2507.23194), whose generator, reflector and optimizer these are.
//
// Iteration 0 asks for `candidates` fresh kernels. After each iteration but the last, the reflector is asked about
// every attempt that had a kernel. An iteration k > 0 optimises when any attempt so far was accepted: the prompt shows
// the best accepted kernels, which are the parents. Otherwise it debugs: each slot sees its own last attempts, the
// parent is the slot's latest.
#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "agents/method.h"
#include "agents/reply.h"
#include "agents/text.h"
#include "agents/trajectory.h"
#include "async/nursery.h"

namespace anneal::agents {
namespace {

using boost::asio::awaitable;
using nlohmann::json;

constexpr size_t pool_size = 5;      // accepted kernels shown to the optimizer
constexpr size_t history_size = 5;   // attempts shown to a slot that debugs
constexpr size_t code_cap = 24'000;  // bytes
constexpr size_t feedback_cap = 6'000;
constexpr size_t reflection_cap = 4'000;

std::string speed_text(const evaluator::Verdict& verdict) {
  if (!verdict.perf.speedup) return "speed not measured on this device";
  const json speedup = std::round(*verdict.perf.speedup * 1000) / 1000;
  std::string text = speedup.dump() + " times the speed of PyTorch eager";
  if (!verdict.perf.verdict.empty()) text += " (" + verdict.perf.verdict + ")";
  return text;
}

std::string missing_text(const std::string& reply_class) {
  if (reply_class == "empty") return "The reply was empty.";
  if (reply_class == "refusal") return "The reply refused the task and held no kernel.";
  if (reply_class == "truncated") return "The reply was cut off before its code block ended. Keep the answer short.";
  if (reply_class == "wrong_entry") return "The reply's code did not define the required entry function.";
  if (reply_class == "api_error") return "No reply was received.";
  return "The reply held no Python code block.";
}

// One attempt as prompts show it.
json shown(const Attempt& attempt) {
  json data;
  data["has_code"] = attempt.has_code();
  data["number"] = attempt.row.iteration + 1;
  data["missing"] = attempt.has_code() ? "" : missing_text(attempt.row.reply_class);
  data["code"] = clean_text(attempt.row.code, code_cap);
  data["feedback"] = "";
  data["accepted"] = attempt.accepted();
  data["speed"] = "";
  if (attempt.has_code()) {
    data["feedback"] = trim(clean_text(attempt.verdict->feedback, feedback_cap));
    data["speed"] = speed_text(*attempt.verdict);
  }
  data["has_feedback"] = !data["feedback"].get<std::string>().empty();
  data["reflection"] = attempt.reflection;
  data["has_reflection"] = !attempt.reflection.empty();
  return data;
}

struct State {
  std::vector<std::vector<Attempt>> iterations;  // [iteration][slot]

  bool any_accepted() const {
    for (const auto& round : iterations) {
      for (const auto& attempt : round) {
        if (attempt.accepted()) return true;
      }
    }
    return false;
  }

  // Accepted kernels, the same code once (its earliest), fastest first; unmeasured ones after them, earliest first.
  std::vector<const Attempt*> pool() const {
    std::vector<const Attempt*> best;
    std::set<std::string> seen;
    for (const auto& round : iterations) {
      for (const auto& attempt : round) {
        if (attempt.accepted() && seen.insert(attempt.row.normalised_sha256).second) best.push_back(&attempt);
      }
    }
    std::sort(best.begin(), best.end(), [](const Attempt* a, const Attempt* b) {
      const double a_speed = a->verdict->perf.speedup.value_or(-1), b_speed = b->verdict->perf.speedup.value_or(-1);
      if (a_speed != b_speed) return a_speed > b_speed;
      return std::tie(a->row.iteration, a->row.slot) < std::tie(b->row.iteration, b->row.slot);
    });
    if (best.size() > pool_size) best.resize(pool_size);
    return best;
  }
};

// One slot of one iteration: the attempt, then the reflection on it. Writes to `result`, which outlives it: run() waits
// for all slots.
awaitable<void> run_slot(std::shared_ptr<Trajectory> trajectory, AttemptPlan plan, bool reflect,
                         std::shared_ptr<std::vector<std::optional<Result<Attempt>>>> results) {
  const int iteration = plan.iteration;
  const int slot = plan.slot;
  auto attempt = co_await trajectory->attempt(std::move(plan));
  if (attempt && attempt->has_code() && reflect) {
    json data;
    data["attempt"] = shown(*attempt);
    auto messages = trajectory->prompt("reflector", std::move(data));
    if (!messages) {
      attempt = tl::unexpected(messages.error());
    } else {
      auto reply = co_await trajectory->complete("reflector", iteration, slot, 0, std::move(*messages));
      if (!reply) {
        attempt = tl::unexpected(reply.error());
      } else if (!reply->ok) {
        // Not gone on without: a later run may get the reflection, and then the prompts that show it would differ.
        attempt = fail(ErrorKind::io, "a reflection did not arrive: " + first_line(clean_text(reply->error, 300)));
      } else {
        attempt->reflection = trim(clean_text(trim(visible_answer(*reply)), reflection_cap));
      }
    }
  }
  (*results)[static_cast<size_t>(slot)] = std::move(attempt);
}

Result<AttemptPlan> plan_slot(const Trajectory& trajectory, const State& state, int iteration, int slot) {
  AttemptPlan plan;
  plan.iteration = iteration;
  plan.slot = slot;
  plan.role = "generator";
  json data = json::object();
  std::string prompt;
  if (iteration == 0) {
    plan.mode = "fresh";
    prompt = "generator";
  } else if (state.any_accepted()) {
    plan.role = "optimizer";
    plan.mode = "optimise";
    prompt = "optimizer";
    data["kernels"] = json::array();
    int rank = 0;
    for (const Attempt* attempt : state.pool()) {
      plan.parents.push_back(attempt->row.id);
      json kernel = shown(*attempt);
      kernel["number"] = ++rank;
      data["kernels"].push_back(std::move(kernel));
    }
  } else {
    plan.mode = "debug";
    prompt = "debug";
    data["attempts"] = json::array();
    const size_t first = state.iterations.size() > history_size ? state.iterations.size() - history_size : 0;
    for (size_t i = first; i < state.iterations.size(); ++i) {
      data["attempts"].push_back(shown(state.iterations[i][static_cast<size_t>(slot)]));
    }
    plan.parents.push_back(state.iterations.back()[static_cast<size_t>(slot)].row.id);
  }
  auto messages = trajectory.prompt(prompt, std::move(data));
  if (!messages) return tl::unexpected(messages.error());
  plan.messages = std::move(*messages);
  return plan;
}

awaitable<Result<void>> run(std::shared_ptr<Trajectory> trajectory) {
  const int iterations = trajectory->method().iterations;
  const int candidates = trajectory->method().candidates;
  const auto executor = co_await boost::asio::this_coro::executor;
  State state;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    auto results = std::make_shared<std::vector<std::optional<Result<Attempt>>>>(static_cast<size_t>(candidates));
    std::vector<AttemptPlan> plans;
    for (int slot = 0; slot < candidates; ++slot) {
      auto plan = plan_slot(*trajectory, state, iteration, slot);
      if (!plan) co_return tl::unexpected(plan.error());
      plans.push_back(std::move(*plan));
    }
    // Nothing returns between the first child and the join: children must not outlive what they refer to.
    Nursery nursery(executor);
    for (AttemptPlan& plan : plans) {
      nursery.spawn(run_slot(trajectory, std::move(plan), iteration + 1 < iterations, results));
    }
    co_await nursery.join();
    std::vector<Attempt> round;
    for (auto& result : *results) {
      if (!*result) co_return tl::unexpected(result->error());
      round.push_back(std::move(**result));
    }
    state.iterations.push_back(std::move(round));
  }
  co_return Result<void>();
}

// At least: no reply holds a kernel. At most: each does, and is reflected on.
CallRange calls(int iterations, int candidates) {
  const long long kernels = static_cast<long long>(iterations) * candidates;
  return {kernels, kernels + static_cast<long long>(iterations - 1) * candidates};
}

}  // namespace

Method geak_method() {
  Method method;
  method.name = "geak";
  method.iterative = true;
  method.default_iterations = 3;
  method.default_candidates = 4;
  method.calls = calls;
  method.run = run;
  return method;
}

}  // namespace anneal::agents
