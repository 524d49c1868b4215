// What a design can find, before money is spent on it.
#pragma once

namespace anneal::transitions {

// The smallest difference between two methods' success rates that a paired comparison over `tasks` tasks detects with
// power 0.8 at the two-sided 5 % level, when the methods disagree on the share `discordant` of tasks: McNemar's test in
// the normal approximation (Connor 1987). In 0..1; more than `discordant` cannot be and is returned as 1.
double detectable_difference(int tasks, double discordant);

}  // namespace anneal::transitions
