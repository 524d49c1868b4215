// Methods: algorithms that spend model calls on a task. A new method is one file with a coroutine, and one line in
// methods.cpp.
//
// A method keeps no state of its own between runs. It runs from its beginning each time; every call and attempt that is
// already stored is found again by its id, so what it decides is a fold over the stored attempts. For that it must be
// deterministic: what it asks next depends on earlier attempts alone, never on time or on who finished first.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <vector>

#include "async/result.h"

namespace anneal::agents {

class Trajectory;

struct CallRange {
  long long least = 0, most = 0;
};

struct Method {
  std::string name;
  bool iterative = false;  // takes `iterations` and `candidates`
  int default_iterations = 1;
  int default_candidates = 1;
  // Model calls of one trajectory (for --dry-run).
  CallRange (*calls)(int iterations, int candidates) = nullptr;
  // Runs the trajectory to its end. An Error means it could not be finished (machine, store or provider at fault).
  boost::asio::awaitable<Result<void>> (*run)(std::shared_ptr<Trajectory> trajectory) = nullptr;
};

const std::vector<Method>& methods();
const Method* find_method(const std::string& name);
std::vector<std::string> method_names();

// One a file.
Method single_shot_method();  // single_shot.cpp
Method geak_method();         // geak.cpp

}  // namespace anneal::agents
