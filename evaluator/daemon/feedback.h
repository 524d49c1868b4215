// The text that goes into the next prompt. Its first line is `<stage> failed: <class>: <what>`, or says that all
// passed.
#pragma once

#include <string>

#include "evaluator/verdict.h"

namespace anneal::evaluator {

// detail: traceback lines of a call failure. At most about 4,000 characters; control characters are left to the caller.
std::string feedback_text(const Verdict& verdict, const std::string& detail);

}  // namespace anneal::evaluator
