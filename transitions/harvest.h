// Transitions: the before/after pairs, derived from the append-only rows. Same rows, same pairs.
#pragma once

#include <string>
#include <vector>

#include "async/result.h"
#include "transitions/database.h"
#include "transitions/diff.h"
#include "transitions/records.h"

namespace anneal::transitions {

struct Transition {
  std::size_t parent = 0, child = 0;  // indices into Records::attempts
  std::string kind;                   // a kind of docs/metrics.md
  double weight = 1;                  // 1 / number of the child's parents
  DiffSize diff;
  // Child's speedup / parent's speedup. `ratio_source`: "baseline_ratio" when each was timed against the baseline only,
  // "not_measured" when one has no timing (then the kind is neutral) or the pair is not correct on both sides.
  std::optional<double> ratio;
  std::string ratio_source = "not_measured";
};

// "call", "exe" or "correct": the stage that an attempt failed, or that it is correct.
std::string stage_of(const AttemptRecord& attempt);

// What happened between two attempts; sets ratio and ratio_source too. Attempts without a kernel count as failing call.
std::string kind_of(const AttemptRecord& parent, const AttemptRecord& child, std::optional<double>* ratio,
                    std::string* ratio_source);

// One pair per (child, parent), children by (trajectory, iteration, slot). Pairs with a missing side (no verdict
// through no fault of the kernel) are left out. Throws SQLite::Exception.
std::vector<Transition> derive_transitions(Database& db, const Records& records);

// Rebuilds the table `transition`; returns its number of rows.
Result<int> harvest(Database& db);

}  // namespace anneal::transitions
