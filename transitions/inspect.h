// Text for `anneal status` and `anneal show`. It holds text of models: clean it before a terminal.
#pragma once

#include <string>

#include "async/result.h"
#include "transitions/database.h"

namespace anneal::transitions {

// What is done, unfinished, failed or not started, by method and model; calls and tokens.
Result<std::string> status_text(Database& db);

// selector: empty for all trajectories; a task id; a trajectory's or an attempt's id, or a prefix of at least 4
// characters that fits one alone. bad_input when nothing or several things fit.
Result<std::string> show_text(Database& db, const std::string& selector);

}  // namespace anneal::transitions
