#include "transitions/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "evaluator/verdict.h"
#include "transitions/diff.h"
#include "transitions/harvest.h"
#include "transitions/records.h"
#include "transitions/report_text.h"

namespace anneal::transitions {
namespace {

std::string state_words(const TrajectoryRecord& t) {
  std::string name = t.state_name();
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string outcome(const AttemptRecord& a) {
  if (a.reply_class != "ok") return a.reply_class;
  if (!a.judged) return a.call_class.empty() ? "not judged" : "not judged: unsupported_on_cpu";
  if (!a.call_ok) return "call: " + a.call_class;
  if (!a.strict_ok) return "exe: " + a.exe_class;
  if (!a.policy_ok) return "policy: " + a.policy_class;
  return a.speedup ? fmt::format("correct, {:.3f}x", *a.speedup) : std::string("correct, speedup not measured");
}

std::string trajectory_line(const TrajectoryRecord& t) {
  return fmt::format("{}  {} {} @ {} seed {}  {}, {} attempts, {} calls\n", t.id, t.task, t.method, t.model, t.seed,
                     state_words(t), t.attempts.size(), t.calls);
}

std::string trajectory_text(const Records& records, const TrajectoryRecord& t) {
  std::string out = trajectory_line(t);
  for (std::size_t index : t.attempts) {
    const AttemptRecord& a = records.attempts[index];
    out += fmt::format("  {}  iteration {} slot {}  {:<9} {:<8} {}\n", a.id, a.iteration, a.slot, a.role, a.mode,
                       outcome(a));
  }
  return out;
}

std::string attempt_text(Database& db, const Records& records, const AttemptRecord& a) {
  std::string out = fmt::format("attempt {}\ntrajectory {}\niteration {} slot {}  {} {}  reply {}  {}\n", a.id,
                                a.trajectory, a.iteration, a.slot, a.role, a.mode, a.reply_class, outcome(a));
  if (!a.llm_call.empty()) {
    SQLite::Statement m(db.sql(), "SELECT role, content FROM llm_message WHERE call = ? ORDER BY position");
    m.bind(1, a.llm_call);
    while (m.executeStep())
      out += fmt::format("\n--- prompt ({})\n{}\n", m.getColumn(0).getString(), db.text(m.getColumn(1).getString()));
    SQLite::Statement c(db.sql(), "SELECT status, reply, error FROM llm_call WHERE id = ?");
    c.bind(1, a.llm_call);
    if (c.executeStep()) {
      out += fmt::format("\n--- reply ({})\n{}\n", c.getColumn(0).getString(), db.text(c.getColumn(1).getString()));
      if (!c.getColumn(2).getString().empty()) out += c.getColumn(2).getString() + "\n";
    }
  }
  if (!a.evaluation.empty()) {
    SQLite::Statement e(db.sql(), "SELECT verdict FROM evaluation WHERE id = ?");
    e.bind(1, a.evaluation);
    if (e.executeStep()) {
      const evaluator::Verdict v =
          evaluator::verdict_from_json(nlohmann::json::parse(db.text(e.getColumn(0).getString())));
      out += fmt::format(
          "\n--- verdict on {}\ncall   {} {}\nexe    {} (published rule {}, strict rule {}) {}\npolicy {} {}\nperf   "
          "{} {}\n",
          v.device_name, v.call.failure_class, v.call.message, v.exe.failure_class, v.exe.ok ? "ok" : "not ok",
          v.exe.strict_ok ? "ok" : "not ok", v.exe.message, evaluator::policy_shown(v), v.policy.message, v.perf.status,
          v.perf.reason);
      if (!v.feedback.empty()) out += "feedback:\n" + v.feedback + "\n";
    }
  }
  for (const std::string& parent_id : a.parents) {
    const AttemptRecord& parent = records.attempts[records.attempt_index.at(parent_id)];
    std::optional<double> ratio;
    std::string source;
    // As in harvest: a pair with a side that was not judged is no transition.
    const std::string kind = parent.missing() || a.missing() ? std::string("no transition: not judged")
                                                             : kind_of(parent, a, &ratio, &source);
    out += fmt::format("\n--- diff from {} ({})\n{}", parent_id, kind,
                       unified_diff(db.text(parent.code_sha256), db.text(a.code_sha256)));
  }
  return out;
}

}  // namespace

Result<std::string> status_text(Database& db) {
  try {
    const Records records = read_records(db);
    std::string out = "experiment " + records.experiment + "\n";
    struct Totals {
      std::map<std::string, int> states;
      std::int64_t calls = 0, errors = 0, prompt = 0, completion = 0;
    };
    std::map<std::string, Totals> by_arm;
    for (const TrajectoryRecord& t : records.trajectories) {
      Totals& totals = by_arm[t.method + " @ " + t.model];
      ++totals.states[state_words(t)];
      totals.calls += t.calls;
      totals.errors += t.api_errors;
      totals.prompt += t.prompt_tokens;
      totals.completion += t.completion_tokens;
    }
    for (const auto& [arm, totals] : by_arm) {
      std::string states;
      for (const auto& [state, n] : totals.states)
        states += fmt::format("{}{} {}", states.empty() ? "" : ", ", n, state);
      out += fmt::format("{}: trajectories: {}; {} calls ({} api errors), {} + {} tokens\n", arm, states, totals.calls,
                         totals.errors, totals.prompt, totals.completion);
    }
    // Why calls failed, the commonest first: what a trajectory that failed is to be mended for.
    SQLite::Statement reasons(db.sql(),
                              "SELECT error, count(*) FROM llm_call WHERE status = 'api_error' GROUP BY error "
                              "ORDER BY count(*) DESC, error LIMIT 3");
    while (reasons.executeStep()) {
      out += fmt::format("api error ({} calls): {}\n", reasons.getColumn(1).getInt(), reasons.getColumn(0).getString());
    }
    return out;
  } catch (const std::exception& error) {
    return tl::unexpected<Error>(database_error(db.file(), error));
  }
}

Result<std::string> show_text(Database& db, const std::string& selector) {
  try {
    const Records records = read_records(db);
    std::string out;
    if (selector.empty()) {
      for (const TrajectoryRecord& t : records.trajectories) out += trajectory_line(t);
      return out;
    }
    for (const TrajectoryRecord& t : records.trajectories)
      if (t.task == selector) out += trajectory_text(records, t);
    if (!out.empty()) return out;
    std::vector<std::string> found;
    const auto fits = [&selector](const std::string& id) {
      return id == selector || (selector.size() >= 4 && id.starts_with(selector));
    };
    for (const TrajectoryRecord& t : records.trajectories)
      if (fits(t.id)) {
        found.push_back(t.id);
        out = trajectory_text(records, t);
      }
    for (const AttemptRecord& a : records.attempts)
      if (fits(a.id)) {
        found.push_back(a.id);
        out = attempt_text(db, records, a);
      }
    if (found.empty())
      return fail(ErrorKind::bad_input, "No task, trajectory or attempt `" + selector + "` in " + db.file().string() +
                                            "; `anneal show` lists them.");
    if (found.size() > 1)
      return fail(ErrorKind::bad_input, "`" + selector + "` fits " + std::to_string(found.size()) +
                                            " ids, among them " + found[0] + " and " + found[1] + ".");
    return out;
  } catch (const std::exception& error) {
    return tl::unexpected<Error>(database_error(db.file(), error));
  }
}

}  // namespace anneal::transitions
