// The report as plain text for a terminal.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace anneal::transitions {

// The report for a terminal: tables by method, then transitions and failures. `report` is what report() returned.
std::string print_report(const nlohmann::json& report);

}  // namespace anneal::transitions
