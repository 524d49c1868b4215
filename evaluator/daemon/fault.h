// The two ways in which an evaluation ends early.
#pragma once

#include <stdexcept>
#include <string>

namespace anneal::evaluator {

// Not the candidate's doing (the zygote died, the device is gone, a task file raises): the attempt counts as not
// judged.
class MachineFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A candidate ended, overran or sent nonsense: what the verdict says of it.
struct CandidateLost {
  std::string failure_class, message;
  bool by_signal = false;  // it was ended by one
};

}  // namespace anneal::evaluator
