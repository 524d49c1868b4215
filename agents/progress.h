// What a run tells while it goes on.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace anneal::agents {

class Progress {
 public:
  virtual ~Progress() = default;
  // One thing that happened, with `event` as its kind: run_started, trajectory_started, attempt, trajectory_done,
  // trajectory_failed, run_finished, run_interrupted. The keys are those of docs/interface.md (`run --json`).
  virtual void on_event(const nlohmann::json& event) = 0;
};

}  // namespace anneal::agents
