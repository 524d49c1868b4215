// The figures of docs/metrics.md over one or more stores, as JSON (keys: docs/interface.md).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "async/result.h"
#include "transitions/report_text.h"  // IWYU pragma: export

namespace anneal::transitions {

// Reads the files (it changes none) and computes the report. What was not measured is null in the JSON. Rates average
// over seeds within a task, then over tasks; `n` counts tasks. Errors name the file.
Result<nlohmann::json> report(const std::vector<std::filesystem::path>& files);

}  // namespace anneal::transitions
