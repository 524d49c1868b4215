// The figures of docs/metrics.md over one or more stores, as JSON (keys: docs/interface.md) and as plain text.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "async/result.h"

namespace anneal::transitions {

// Reads the files (it changes none) and computes the report. What was not measured is null in the JSON. Rates average
// over seeds within a task, then over tasks; `n` counts tasks. Errors name the file.
Result<nlohmann::json> report(const std::vector<std::filesystem::path>& files);

// The report for a terminal: tables by method, then transitions and failures. `report` is what report() returned.
std::string print_report(const nlohmann::json& report);

// `text` without control characters other than newline and tab, and without the Unicode bidirectional controls: text of
// models must not drive a terminal.
std::string printable(std::string_view text);

}  // namespace anneal::transitions
