// The figures of one arm, a (method, model) of one file, as JSON. Formulas: docs/metrics.md; keys: docs/interface.md.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "transitions/records.h"
#include "transitions/statistics.h"

namespace anneal::transitions {

struct Arm {
  std::vector<const TrajectoryRecord*> trajectories;
  const Records* records = nullptr;
  int last = 0;  // the last iteration that any trajectory reached
};

// {rate, count, of, ci} of units that are clustered in tasks.
nlohmann::json proportion_json(const std::map<std::string, Counted>& by_task);

nlohmann::json iterations_json(const Arm& arm);        // of what was handed in after each iteration
nlohmann::json iterations_round_json(const Arm& arm);  // of each iteration's own attempts
nlohmann::json repair_json(const Arm& arm);
nlohmann::json decay_json(const Arm& arm);
nlohmann::json fast_p_json(const Arm& arm);
nlohmann::json total_outcome_json(const Arm& arm);
nlohmann::json barriers_json(const Arm& arm);
nlohmann::json rescue_json(const Arm& arm);
// {geomean, geomean_ci, n, source} of child over parent; by task, one value a child.
nlohmann::json parent_child_json(const std::map<std::string, std::vector<double>>& ratios);

struct CategoryRates {
  std::string category;
  nlohmann::json call, exe;  // of what was handed in last
};
std::vector<CategoryRates> by_category(const Arm& arm);

}  // namespace anneal::transitions
