#include "transitions/design.h"

#include <cmath>

namespace anneal::transitions {

double detectable_difference(int tasks, double discordant) {
  constexpr double z_alpha = 1.959963985, z_beta = 0.841621234;
  const auto tasks_needed = [&](double difference) {
    const double root = z_alpha * std::sqrt(discordant) + z_beta * std::sqrt(discordant - difference * difference);
    return root * root / (difference * difference);
  };
  if (tasks <= 0 || tasks_needed(discordant) > tasks) return 1;
  double low = 0, high = discordant;
  for (int step = 0; step < 60; ++step) {
    const double middle = (low + high) / 2;
    (tasks_needed(middle) > tasks ? low : high) = middle;
  }
  return high;
}

}  // namespace anneal::transitions
