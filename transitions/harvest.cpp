#include "transitions/harvest.h"

#include <cmath>

namespace anneal::transitions {
namespace {

constexpr double kSmallestChange = 0.01;  // docs/metrics.md, "Transition kinds": at least 1 % apart

}  // namespace

std::string stage_of(const AttemptRecord& attempt) {
  if (attempt.correct) return "correct";
  return attempt.judged && attempt.call_ok ? "exe" : "call";
}

std::string kind_of(const AttemptRecord& parent, const AttemptRecord& child, std::optional<double>* ratio,
                    std::string* ratio_source) {
  *ratio = std::nullopt;
  *ratio_source = "not_measured";
  const std::string before = stage_of(parent), after = stage_of(child);
  const bool same_code = !parent.normalised_sha256.empty() && parent.normalised_sha256 == child.normalised_sha256;
  if (same_code && before != after) return "flaky";
  if (before == "correct" && after == "correct") {
    if (!parent.speedup || !child.speedup || *parent.speedup <= 0) return "neutral";
    *ratio = *child.speedup / *parent.speedup;
    *ratio_source = "baseline_ratio";
    if (same_code || !parent.speedup_lo || !parent.speedup_hi || !child.speedup_lo || !child.speedup_hi)
      return "neutral";
    if (*child.speedup_lo > *parent.speedup_hi && **ratio >= 1 + kSmallestChange) return "speedup_gain";
    if (*child.speedup_hi < *parent.speedup_lo && **ratio <= 1 / (1 + kSmallestChange)) return "speedup_loss";
    return "neutral";
  }
  if (before == "correct") return "regression";
  if (after == "correct") return before == "call" ? "call_exe_fix" : "exe_fix";
  if (before == "call" && after == "exe") return "call_fix";
  if (before == "exe" && after == "call") return "regression";
  return "still_failing";
}

std::vector<Transition> derive_transitions(Database& db, const Records& records) {
  std::vector<Transition> transitions;
  for (std::size_t i = 0; i < records.attempts.size(); ++i) {
    const AttemptRecord& child = records.attempts[i];
    if (child.missing()) continue;
    for (const std::string& parent_id : child.parents) {
      const std::size_t p = records.attempt_index.at(parent_id);
      const AttemptRecord& parent = records.attempts[p];
      if (parent.missing()) continue;
      Transition t;
      t.parent = p;
      t.child = i;
      t.kind = kind_of(parent, child, &t.ratio, &t.ratio_source);
      t.weight = 1.0 / static_cast<double>(child.parents.size());
      if (parent.code_sha256 != child.code_sha256)
        t.diff = diff_size(db.text(parent.code_sha256), db.text(child.code_sha256));
      transitions.push_back(std::move(t));
    }
  }
  return transitions;
}

Result<int> harvest(Database& db) {
  try {
    SQLite::Transaction transaction(db.sql(), SQLite::TransactionBehavior::IMMEDIATE);
    const Records records = read_records(db);
    const std::vector<Transition> transitions = derive_transitions(db, records);
    db.sql().exec("DELETE FROM transition");
    for (const Transition& t : transitions) {
      const AttemptRecord& parent = records.attempts[t.parent];
      const AttemptRecord& child = records.attempts[t.child];
      SQLite::Statement s(db.sql(), "INSERT INTO transition VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
      s.bind(1, parent.id);
      s.bind(2, child.id);
      s.bind(3, child.trajectory);
      s.bind(4, child.iteration);
      s.bind(5, t.kind);
      s.bind(6, t.weight);
      s.bind(7, parent.code_sha256);
      s.bind(8, child.code_sha256);
      s.bind(9, t.diff.added);
      s.bind(10, t.diff.removed);
      bind_optional(s, 11, t.ratio);
      s.bind(12, t.ratio_source);
      s.bind(13, stage_of(parent));
      s.bind(14, stage_of(child));
      bind_optional(s, 15, parent.cases_right);
      bind_optional(s, 16, child.cases_right);
      bind_optional(s, 17, parent.elements_right);
      bind_optional(s, 18, child.elements_right);
      s.exec();
    }
    transaction.commit();
    return static_cast<int>(transitions.size());
  } catch (const std::exception& error) {
    return tl::unexpected<Error>(database_error(db.file(), error));
  }
}

}  // namespace anneal::transitions
