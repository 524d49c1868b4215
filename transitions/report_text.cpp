#include "transitions/report_text.h"

#include <fmt/format.h>

namespace anneal::transitions {
namespace {

using nlohmann::json;

std::string cell(const json& rate) {
  if (rate["rate"].is_null()) return "-";
  return fmt::format("{:5.1f}% {}/{}", 100 * rate["rate"].get<double>(), rate["count"].get<int>(),
                     rate["of"].get<int>());
}

std::string figure(const json& value) {
  return value.is_null() ? "not measured" : fmt::format("{:.3f}", value.get<double>());
}

std::string interval(const json& ci) {
  return ci.is_null() ? "" : fmt::format(" [{:.3f}, {:.3f}]", ci[0].get<double>(), ci[1].get<double>());
}

std::string left_out(int missing_at_0) {
  return missing_at_0 == 0 ? "" : fmt::format(" ({} left out: not judged at 0)", missing_at_0);
}

std::string untimed(const json& total) {  // correct kernels without a speedup
  std::string out;
  for (const auto& [key, what] : {std::pair<const char*, const char*>{"rejected", "rejected timings as 1"},
                                  {"too_slow", "too slow to be timed as 1"},
                                  {"left_out", "not timed and left out"}})
    if (total[key] != 0) out += fmt::format("{}{} {}", out.empty() ? "; " : ", ", total[key].get<int>(), what);
  return out;
}

std::string counts(const json& object) {
  std::string out;
  for (const auto& [key, value] : object.items())
    out += fmt::format("{}{} {:g}", out.empty() ? "" : ", ", key, value.get<double>());
  return out.empty() ? "none" : out;
}

bool rules_differ(const json& iterations) {
  for (const json& i : iterations)
    if (i["exe"] != i["strict"]) return true;
  return false;
}

}  // namespace

std::string print_report(const nlohmann::json& report) {
  std::string out = fmt::format("experiment {}\n", report["experiment"].get<std::string>());
  for (const json& device : report["devices"]) out += "device     " + device.get<std::string>() + "\n";
  for (const json& m : report["methods"]) {
    out += fmt::format("\n{} @ {}   {} tasks, {} seeds, {} attempts\n", m["method"].get<std::string>(),
                       m["model"].get<std::string>(), m["tasks"].get<int>(), m["seeds"].get<int>(),
                       m["attempts"].get<int>());
    for (const auto& [title, key] :
         {std::pair<const char*, const char*>{"handed in", "iterations"}, {"round", "iterations_round"}}) {
      out += fmt::format("  {:<9} {:>4}  {:<15} {:<15} {:<15} {:<15} {}\n", title, "iter", "call", "exe", "strict",
                         "correct", "speedup (geomean of correct, survivors only)");
      for (const json& i : m[key])
        out += fmt::format("  {:<9} {:>4}  {:<15} {:<15} {:<15} {:<15} {}\n", "", i["iteration"].get<int>(),
                           cell(i["call"]), cell(i["exe"]), cell(i["strict"]), cell(i["correct"]),
                           figure(i["speedup_geomean"]));
    }
    if (rules_differ(m["iterations"]) || rules_differ(m["iterations_round"]))
      out += "  exe counts by the published tolerances; strict, by the error against fp64, decides what is correct\n";
    out += "  transitions      " + counts(m["transitions"]) + "\n";
    out += "  replies          " + counts(m["reply_classes"]) + "\n";
    for (const char* stage : {"call", "exe", "policy"})
      out += fmt::format("  {:<6} failures  {}\n", stage, counts(m["failure_classes"][stage]));
    const json& bias = m["repair_bias"];
    out += fmt::format("  rescued          {} of {} correct{}\n", bias["rescued"]["n"].get<int>(),
                       bias["rescued"]["n"].get<int>() + bias["initial"]["n"].get<int>(),
                       left_out(bias["missing_at_0"].get<int>()));
    out += fmt::format("  repair bias      pooled {}{}, within task {}{} ({} tasks)\n", figure(bias["ratio_geomean"]),
                       interval(bias["ci"]), figure(bias["within_task"]["ratio_geomean"]),
                       interval(bias["within_task"]["ci"]), bias["within_task"]["pairs"].get<int>());
    for (const bool round : {false, true}) {
      const json& d = round ? m["speedup_decay"]["round"] : m["speedup_decay"];
      out += fmt::format("  speedup decay    {:<9} ", round ? "round" : "handed in");
      if (d["mean_change"].is_null())
        out += "not measured\n";
      else if (d["drift"].is_null())
        out +=
            fmt::format("{:+.3f}; split undefined (no kernel correct at both ends)\n", d["mean_change"].get<double>());
      else
        out +=
            fmt::format("{:+.3f} = drift {:+.3f}, joining {:+.3f}, leaving {:+.3f}\n", d["mean_change"].get<double>(),
                        d["drift"].get<double>(), d["joining"].get<double>(), d["leaving"].get<double>());
    }
    const std::string arm = m["key"];
    const json& b = report["barriers"][arm];
    out += fmt::format("  barriers         call {}, exe|call {}, FAST|correct {}\n", cell(b["call"]),
                       cell(b["exe_given_call"]),
                       b["fast_given_correct"]["of"].get<int>() ? cell(b["fast_given_correct"]) : "not measured");
    out += "  fast_p           ";
    const json& fast = report["fast_p"][arm];
    if (fast["1"].is_null()) {
      out += "not measured\n";
    } else {
      std::string row;
      for (const auto& [p, rate] : fast.items())
        row += fmt::format("{}p={} {}", row.empty() ? "" : ", ", p, cell(rate));
      out += row + "\n";
    }
    const json& total = report["total_outcome"][arm];
    out += "  total outcome    " +
           (total.is_null() ? std::string("not measured")
                            : figure(total["geomean"]) + interval(total["ci"]) + untimed(total)) +
           "\n";
    const json& rescue = report["time_to_rescue"][arm];
    out += fmt::format("  time to rescue   {} failed at 0{}", rescue["failed_at_0"].get<int>(),
                       left_out(rescue["missing_at_0"].get<int>()));
    for (const json& row : rescue["by_iteration"])
      out += fmt::format("; rescued by {}: {:.1f}%", row["iteration"].get<int>(),
                         100 * row["rescued_share"].get<double>());
    out += fmt::format(
        "\n  calls            {} ({} api errors), tokens {} prompt + {} completion; {} kernels not judged\n",
        m["calls"].get<std::int64_t>(), m["api_errors"].get<std::int64_t>(), m["prompt_tokens"].get<std::int64_t>(),
        m["completion_tokens"].get<std::int64_t>(), m["not_judged"].get<std::int64_t>());
  }
  std::string absent;
  for (const auto& [key, why] : report["not_measured"].items())
    if (key.find('@') == std::string::npos) absent += (absent.empty() ? "" : ", ") + key;
  if (!absent.empty()) out += "\nnot measured: " + absent + "\n";
  return out;
}

}  // namespace anneal::transitions
