#include "agents/trajectory.h"

#include <boost/system/system_error.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "agents/reply.h"
#include "agents/text.h"
#include "async/sha256.h"
#include "transitions/ids.h"
#include "transitions/normalise.h"

namespace anneal::agents {

namespace asio = boost::asio;
using asio::awaitable;
using nlohmann::json;
using transitions::AttemptRow;

namespace {

template <class T>
json or_null(const std::optional<T>& value) {
  if (value) return json(*value);
  return json();
}

std::string device_text(const evaluator::DeviceFacts& facts) {
  std::string text = facts.device == "cpu"
                         ? "Kernels are compiled ahead of time and run for their values by " + facts.device_name +
                               "; no speed is measured here, so write for a current NVIDIA GPU"
                         : "Kernels run on " + facts.device_name;
  if (!facts.triton.empty()) text += ", with Triton " + facts.triton;
  if (!facts.torch.empty()) text += " and PyTorch " + facts.torch;
  return text + ".";
}

}  // namespace

Trajectory::Trajectory(Services& services, Task task, MethodConfig method, llm::ModelConfig model, int seed)
    : services_(services), task_(std::move(task)), method_(std::move(method)), model_(std::move(model)), seed_(seed) {
  id_ = transitions::make_id({services_.experiment, task_.id, method_.name, method_.model, std::to_string(seed_)});
}

transitions::TrajectoryRow Trajectory::row(const std::string& device) const {
  transitions::TrajectoryRow row;
  row.id = id_;
  row.experiment = transitions::make_id({services_.experiment});
  row.task = task_.id;
  row.method = method_.name;
  row.model = method_.model;
  row.seed = seed_;
  const json settings = {{"iterations", method_.iterations},
                         {"candidates", method_.candidates},
                         {"device", device},
                         {"device_name", services_.evaluations.facts().device_name},
                         {"settings_sha256", services_.evaluations.facts().settings_sha256},
                         {"prompts_sha256", services_.prompts.sha256()},
                         {"api", model_.api},
                         {"model", model_.model},
                         {"temperature", or_null(model_.sampling.temperature)},
                         {"top_p", or_null(model_.sampling.top_p)},
                         {"max_tokens", or_null(model_.sampling.max_tokens)},
                         {"seed", or_null(model_.sampling.seed)}};
  row.settings_json = settings.dump();
  return row;
}

Result<std::vector<llm::Message>> Trajectory::prompt(const std::string& name, json data) const {
  data["task"] = task_.id;
  data["entry"] = task_.id;
  data["signature"] = task_.signature;
  data["precision"] = task_.precision;
  data["category"] = task_.category;
  data["description"] = task_.description;
  data["device_text"] = device_text(services_.evaluations.facts());
  auto task_text = services_.prompts.render("common/task", data);
  if (!task_text) return tl::unexpected(task_text.error());
  data["task_text"] = *task_text;
  auto rules = services_.prompts.render("common/rules", data);
  if (!rules) return tl::unexpected(rules.error());
  data["rules"] = *rules;
  auto system = services_.prompts.render("common/system", data);
  if (!system) return tl::unexpected(system.error());
  auto user = services_.prompts.render(method_.name + "/" + name, data);
  if (!user) return tl::unexpected(user.error());
  std::vector<llm::Message> messages(2);
  messages[0].role = "system";
  messages[0].content = trim(*system);
  messages[1].role = "user";
  messages[1].content = trim(*user);
  return messages;
}

bool Trajectory::budget_is_spent() const {
  const auto& counters = services_.llm.counters();
  const long long tokens = services_.tokens_before + counters.prompt_tokens + counters.completion_tokens;
  return (services_.budget.tokens && tokens >= *services_.budget.tokens) ||
         (services_.end_at && std::chrono::steady_clock::now() >= *services_.end_at);
}

awaitable<Result<llm::Reply>> Trajectory::complete(std::string role, int iteration, int slot, int sample,
                                                   std::vector<llm::Message> messages) {
  llm::Request request;
  request.may_spend = [this] { return !budget_is_spent() && services_.uncounted_model.empty(); };
  request.id = call_id(role, iteration, slot, sample);
  request.trajectory = id_;
  request.place.task = task_.id;
  request.place.method = method_.name;
  request.place.role = role;
  request.place.iteration = iteration;
  request.place.slot = slot;
  request.place.sample = sample;
  request.place.seed = seed_;
  request.model = model_.name;
  request.messages = std::move(messages);
  request.sampling = model_.sampling;
  // Slots and seeds that share a prompt must not be the same draw; going on with an experiment must.
  if (request.sampling.seed) {
    *request.sampling.seed += std::stoll(sha256_hex(request.id).substr(0, 7), nullptr, 16);
  }
  auto reply = co_await services_.llm.complete(std::move(request));
  if (!reply && reply.error().kind == ErrorKind::budget) {
    if (!budget_is_spent()) {
      co_return fail(ErrorKind::bad_input, "The server of model '" + services_.uncounted_model +
                                               "' sends no token counts, so budget.tokens cannot be kept: use "
                                               "budget.hours.");
    }
    services_.budget_spent = true;
    co_return fail(ErrorKind::budget, "The budget is spent.");
  }
  if (reply && reply->ok && services_.budget.tokens && !reply->usage.completion_tokens) {
    services_.uncounted_model = model_.name;
  }
  co_return reply;
}

std::string Trajectory::call_id(const std::string& role, int iteration, int slot, int sample) const {
  return transitions::make_id({services_.experiment, task_.id, method_.name, method_.model, std::to_string(seed_),
                               std::to_string(iteration), std::to_string(slot), role, std::to_string(sample)});
}

std::string Trajectory::attempt_id(int iteration, int slot, int sample) const {
  const std::string seed = std::to_string(seed_), i = std::to_string(iteration), s = std::to_string(slot);
  if (sample == 0)
    return transitions::make_id({services_.experiment, task_.id, method_.name, method_.model, seed, i, s});
  return transitions::make_id(
      {services_.experiment, task_.id, method_.name, method_.model, seed, i, s, "sample", std::to_string(sample)});
}

awaitable<Result<Attempt>> Trajectory::load(AttemptRow row) {
  Attempt attempt;
  if (!row.evaluation.empty()) {
    auto evaluation = co_await services_.store.find_evaluation(row.evaluation);
    if (!evaluation) co_return tl::unexpected(evaluation.error());
    if (!*evaluation) {
      co_return fail(ErrorKind::internal, "The evaluation of attempt " + row.id + " is missing from the store.");
    }
    attempt.verdict = std::move((*evaluation)->verdict);
  }
  attempt.row = std::move(row);
  co_return attempt;
}

json Trajectory::attempt_event(const Attempt& attempt) const {
  json event = {{"event", "attempt"},
                {"trajectory", id_},
                {"task", task_.id},
                {"method", method_.name},
                {"model", method_.model},
                {"seed", seed_},
                {"iteration", attempt.row.iteration},
                {"slot", attempt.row.slot},
                {"mode", attempt.row.mode},
                {"attempt", attempt.row.id},
                {"reply_class", attempt.row.reply_class},
                {"accepted", attempt.accepted()}};
  if (attempt.verdict) {
    event["call"] = attempt.verdict->call.failure_class;
    event["exe"] = attempt.verdict->exe.failure_class;
    event["speedup"] = or_null(attempt.verdict->perf.speedup);
  }
  return event;
}

awaitable<Result<Attempt>> Trajectory::attempt(AttemptPlan plan) {
  // The last stored one counts: an api_error may have been asked for again.
  int sample = 0;
  std::optional<AttemptRow> stored;
  for (;; ++sample) {
    auto found = co_await services_.store.find_attempt(attempt_id(plan.iteration, plan.slot, sample));
    if (!found) co_return tl::unexpected(found.error());
    if (!*found) break;
    stored = std::move(**found);
    if (stored->reply_class != "api_error") break;
  }
  asked_again_ = asked_again_ || sample > 0;
  const bool again = stored && stored->reply_class == "api_error" && services_.retry_errors;
  if (stored && !again) {
    if (stored->reply_class == "api_error") {
      ++lost_replies_;
      last_api_error_ = "stored by an earlier run; ask again with --retry-errors";
    }
    auto loaded = co_await load(std::move(*stored));
    co_return loaded;
  }

  auto reply = co_await complete(plan.role, plan.iteration, plan.slot, sample, plan.messages);
  if (!reply && reply.error().kind == ErrorKind::bad_input && asked_again_) {
    // Answered, but no attempt was made of it before the run ended, and since then an earlier reply came that was
    // missing then. The stored answer stays with its prompt; this prompt is a call of its own.
    ++sample;
    reply = co_await complete(plan.role, plan.iteration, plan.slot, sample, plan.messages);
  }
  if (!reply) co_return tl::unexpected(reply.error());
  const ParsedReply parsed = parse_reply(*reply, task_.id);
  Attempt attempt;
  AttemptRow& row = attempt.row;
  row.id = attempt_id(plan.iteration, plan.slot, sample);
  row.trajectory = id_;
  row.iteration = plan.iteration;
  row.slot = plan.slot;
  row.role = plan.role;
  row.mode = plan.mode;
  row.parents = plan.parents;
  row.reply_class = parsed.reply_class;
  row.code = parsed.code;
  row.strategy = parsed.strategy;
  row.llm_call = call_id(plan.role, plan.iteration, plan.slot, sample);
  if (parsed.reply_class == "ok") {
    row.code_sha256 = sha256_hex(row.code);
    row.normalised_sha256 = transitions::normalised_sha256(row.code);
    auto evaluation = co_await services_.evaluations.evaluate(task_, row.code, row.id);
    if (!evaluation) co_return tl::unexpected(evaluation.error());
    row.evaluation = evaluation->id;
    attempt.verdict = std::move(evaluation->verdict);
  }
  auto put = co_await services_.store.put_attempt(row);
  if (!put) co_return tl::unexpected(put.error());
  if (parsed.reply_class == "api_error") {
    ++lost_replies_;
    last_api_error_ = first_line(clean_text(reply->error, 300));
  }
  services_.progress.on_event(attempt_event(attempt));
  co_return attempt;
}

}  // namespace anneal::agents
