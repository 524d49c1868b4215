// The report as plain text for a terminal.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace anneal::transitions {

// The report for a terminal: tables by method, then transitions and failures. `report` is what report() returned.
std::string print_report(const nlohmann::json& report);

// `text` without control characters other than newline and tab, and without the Unicode bidirectional controls: text of
// models must not drive a terminal.
std::string printable(std::string_view text);

}  // namespace anneal::transitions
