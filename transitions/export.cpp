#include "transitions/export.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "evaluator/verdict.h"
#include "transitions/harvest.h"
#include "transitions/whole_file.h"

namespace anneal::transitions {
namespace {

using nlohmann::ordered_json;

ordered_json number(std::optional<double> value) { return value ? ordered_json(*value) : ordered_json(nullptr); }

std::optional<evaluator::Verdict> verdict_of(Database& db, const AttemptRecord& attempt) {
  if (attempt.evaluation.empty()) return std::nullopt;
  SQLite::Statement s(db.sql(), "SELECT verdict FROM evaluation WHERE id = ?");
  s.bind(1, attempt.evaluation);
  if (!s.executeStep()) return std::nullopt;
  return evaluator::verdict_from_json(nlohmann::json::parse(db.text(s.getColumn(0).getString())));
}

// What the reflector said about an attempt; empty when nothing.
std::string reflection_on(Database& db, const AttemptRecord& attempt) {
  SQLite::Statement s(db.sql(),
                      "SELECT reply FROM llm_call WHERE trajectory = ? AND role = 'reflector' AND iteration = ? AND "
                      "slot = ? AND status = 'ok' ORDER BY sample DESC LIMIT 1");
  s.bind(1, attempt.trajectory);
  s.bind(2, attempt.iteration);
  s.bind(3, attempt.slot);
  return s.executeStep() ? db.text(s.getColumn(0).getString()) : std::string();
}

// `<stage> failed: <class>` of a feedback's first line; the rest holds figures of one draw.
std::string feedback_class(const std::string& feedback) {
  const std::string line = feedback.substr(0, feedback.find('\n'));
  const std::size_t stage = line.find(": ");
  if (stage == std::string::npos) return line;
  return line.substr(0, line.find(':', stage + 2));
}

ordered_json side(Database& db, const AttemptRecord& a, bool canonical) {
  ordered_json j;
  if (!canonical) j["attempt"] = a.id;
  j["iteration"] = a.iteration;
  j["slot"] = a.slot;
  j["mode"] = a.mode;
  j["reply_class"] = a.reply_class;
  j["code"] = db.text(a.code_sha256);
  j["code_sha256"] = a.code_sha256;
  j["normalised_sha256"] = a.normalised_sha256;
  j["stage"] = stage_of(a);
  ordered_json v;
  v["call_ok"] = a.call_ok;
  v["call_class"] = a.judged ? ordered_json(a.call_class) : ordered_json(nullptr);
  v["exe_ok"] = a.exe_ok;
  v["strict_ok"] = a.strict_ok;
  v["exe_class"] = a.judged ? ordered_json(a.exe_class) : ordered_json(nullptr);
  v["policy_ok"] = a.policy_answer() ? ordered_json(*a.policy_answer()) : ordered_json(nullptr);
  v["accepted"] = a.correct;
  v["perf_status"] = a.judged ? ordered_json(a.perf_status) : ordered_json(nullptr);
  v["speedup"] = canonical ? ordered_json(nullptr) : number(a.speedup);
  // Inputs are drawn anew for every evaluation: how much of them was wrong differs between two runs, what was wrong
  // does not.
  v["cases_right"] = canonical ? ordered_json(nullptr) : number(a.cases_right);
  v["elements_right"] = canonical ? ordered_json(nullptr) : number(a.elements_right);
  j["verdict"] = v;
  return j;
}

}  // namespace

Result<int> write_transitions_jsonl(Database& db, std::ostream& out, ExportOptions options) {
  try {
    SQLite::Transaction snapshot(db.sql());
    const Records records = read_records(db);
    const std::vector<Transition> transitions = derive_transitions(db, records);
    std::map<std::string, const TrajectoryRecord*> trajectory_of;
    for (const TrajectoryRecord& t : records.trajectories) trajectory_of[t.id] = &t;
    std::vector<const Transition*> order;
    for (const Transition& t : transitions) order.push_back(&t);
    const auto key = [&](const Transition* t) {
      const AttemptRecord& child = records.attempts[t->child];
      const AttemptRecord& parent = records.attempts[t->parent];
      const TrajectoryRecord& tr = *trajectory_of.at(child.trajectory);
      return std::tie(tr.task, tr.method, tr.model, tr.seed, child.iteration, child.slot, parent.iteration,
                      parent.slot);
    };
    // Equal keys keep the order of `transitions`; std::stable_sort warns as deprecated under clang with libstdc++ 12.
    std::sort(order.begin(), order.end(),
              [&](const Transition* a, const Transition* b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
    for (const Transition* t : order) {
      const AttemptRecord& parent = records.attempts[t->parent];
      const AttemptRecord& child = records.attempts[t->child];
      const TrajectoryRecord& tr = *trajectory_of.at(child.trajectory);
      ordered_json line;
      if (!options.canonical) line["trajectory"] = tr.id;
      line["task"] = tr.task;
      line["category"] = tr.category;
      line["precision"] = tr.precision;
      line["method"] = tr.method;
      line["model"] = tr.model;
      line["seed"] = tr.seed;
      line["iteration"] = child.iteration;
      line["slot"] = child.slot;
      line["kind"] = t->kind;
      line["weight"] = t->weight;
      line["before"] = side(db, parent, options.canonical);
      line["after"] = side(db, child, options.canonical);
      line["lines_added"] = t->diff.added;
      line["lines_removed"] = t->diff.removed;
      line["ratio"] = options.canonical ? ordered_json(nullptr) : number(t->ratio);
      line["ratio_source"] = t->ratio_source;
      const std::optional<evaluator::Verdict> verdict = verdict_of(db, parent);
      const std::string feedback = verdict ? verdict->feedback : std::string();
      line["feedback"] = options.canonical ? feedback_class(feedback) : feedback;
      line["reflection"] = reflection_on(db, parent);
      out << line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
      if (!out) break;
    }
    out.flush();
    if (!out) return fail(ErrorKind::io, "Writing the export failed: " + write_failure() + ".");
    return static_cast<int>(order.size());
  } catch (const std::exception& error) {
    return tl::unexpected<Error>(database_error(db.file(), error));
  }
}

Result<int> export_transitions_jsonl(Database& db, const std::filesystem::path& path, ExportOptions options) {
  if (path == "-") return write_transitions_jsonl(db, std::cout, options);
  int lines = 0;
  const Result<void> written = write_whole_file(path, [&](std::ostream& out) -> Result<void> {
    const Result<int> count = write_transitions_jsonl(db, out, options);
    if (!count) return tl::unexpected<Error>(count.error());
    lines = *count;
    return {};
  });
  if (!written) return tl::unexpected<Error>(written.error());
  return lines;
}

}  // namespace anneal::transitions
