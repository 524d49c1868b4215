// Transitions as a data set: one JSON object a line.
#pragma once

#include <filesystem>
#include <iosfwd>

#include "async/result.h"
#include "transitions/database.h"

namespace anneal::transitions {

struct ExportOptions {
  // Leaves out ids and what is measured, so that a resumed and an undisturbed run compare equal byte for byte.
  bool canonical = false;
};

// Writes every transition, sorted by (task, method, model, seed, iteration, slot, parent's place); returns the number
// of lines. Keys: docs/metrics.md.
Result<int> write_transitions_jsonl(Database& db, std::ostream& out, ExportOptions options = {});

// The same to `path`, whole or not at all (whole_file.h); "-" is stdout.
Result<int> export_transitions_jsonl(Database& db, const std::filesystem::path& path, ExportOptions options = {});

}  // namespace anneal::transitions
