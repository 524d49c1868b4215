// A live candidate as one evaluation uses it: its folder, its arenas, and questions with deadlines.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "evaluator/daemon/arena.h"
#include "evaluator/daemon/fault.h"
#include "evaluator/daemon/oom_kills.h"
#include "evaluator/daemon/zygote.h"

namespace anneal::evaluator {

// A user of its own for each candidate, so that one that forks without end does not use up the others' processes;
// nullopt where the user cannot be changed.
std::optional<unsigned> next_candidate_user(const SandboxAbilities& abilities);

class CandidateHandle {
 public:
  // Throws MachineFault when none can be started.
  CandidateHandle(ZygoteClient& zygote, const CandidateSettings& settings);
  ~CandidateHandle();
  CandidateHandle(const CandidateHandle&) = delete;
  CandidateHandle& operator=(const CandidateHandle&) = delete;

  // The candidate's answer. Throws CandidateLost when there is none within `seconds`, and MachineFault when the
  // candidate cannot be killed, its sandbox could not be built, or the kernel may have ended it for memory that another
  // took.
  nlohmann::json ask(const nlohmann::json& request, double seconds, const std::vector<int>& descriptors = {});

  // The arena of that role, at least so large; mapped by the candidate when it is new or has grown.
  Arena& inputs(std::size_t bytes) { return arena("inputs", inputs_, bytes); }
  Arena& outputs(std::size_t bytes) { return arena("outputs", outputs_, bytes); }

 private:
  Arena& arena(const char* role, std::unique_ptr<Arena>& held, std::size_t bytes);
  void end();
  CandidateLost ended_how();

  ZygoteClient& zygote_;
  int device_;
  OomKills oom_kills_;  // when it was spawned
  Spawned spawned_;
  std::unique_ptr<Arena> inputs_, outputs_;
  bool ended_ = false;
  std::optional<int> status_;
};

}  // namespace anneal::evaluator
