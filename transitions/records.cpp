#include "transitions/records.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace anneal::transitions {
namespace {

std::optional<double> real(const SQLite::Column& column) {
  if (column.isNull()) return std::nullopt;
  return column.getDouble();
}

constexpr std::string_view unsupported = "unsupported_on_cpu";

bool has_flag(const std::string& flags_json, std::string_view flag) {
  const nlohmann::json flags = nlohmann::json::parse(flags_json);
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

}  // namespace

std::string TrajectoryRecord::state_name() const {
  if (state.empty()) return "not_started";
  if (state == "trajectory_started") return "unfinished";
  return state.substr(state.find('_') + 1);
}

Records read_records(Database& db) {
  Records records;
  {
    SQLite::Statement s(db.sql(), "SELECT name FROM experiment ORDER BY created, id LIMIT 1");
    if (s.executeStep()) records.experiment = s.getColumn(0).getString();
  }
  {
    // Those that judged an attempt: a file can hold devices of kernels that belong to no experiment. Where nothing was
    // judged, the one that would have.
    SQLite::Statement s(db.sql(),
                        "WITH used AS (SELECT DISTINCT e.device AS id FROM attempt a JOIN evaluation e ON e.id = "
                        "a.evaluation) SELECT device_name, max(name <> 'cpu') FROM device WHERE id IN used OR NOT "
                        "EXISTS (SELECT 1 FROM used) GROUP BY device_name ORDER BY device_name");
    while (s.executeStep()) {
      records.devices.push_back(s.getColumn(0).getString());
      records.times_kernels = records.times_kernels || s.getColumn(1).getInt() != 0;
    }
  }
  std::map<std::string, std::size_t> trajectory_index;
  {
    SQLite::Statement s(db.sql(),
                        "SELECT t.id, t.task, k.category, k.precision, k.difficulty, t.method, t.model, t.seed, "
                        "(SELECT kind FROM event WHERE subject = t.id AND kind LIKE 'trajectory\\_%' ESCAPE '\\' "
                        "ORDER BY number DESC LIMIT 1) "
                        "FROM trajectory t JOIN task k ON k.id = t.task "
                        "ORDER BY t.task, t.method, t.model, t.seed, t.id");
    while (s.executeStep()) {
      TrajectoryRecord t;
      t.id = s.getColumn(0).getString();
      t.task = s.getColumn(1).getString();
      t.category = s.getColumn(2).getString();
      t.precision = s.getColumn(3).getString();
      t.difficulty = s.getColumn(4).getInt();
      t.method = s.getColumn(5).getString();
      t.model = s.getColumn(6).getString();
      t.seed = s.getColumn(7).getInt();
      t.state = s.getColumn(8).getString();
      trajectory_index[t.id] = records.trajectories.size();
      records.trajectories.push_back(std::move(t));
    }
  }
  {
    SQLite::Statement s(
        db.sql(),
        "SELECT a.id, a.trajectory, a.iteration, a.slot, a.role, a.mode, a.reply_class, a.code_sha256, "
        "a.normalised_sha256, a.llm_call, a.evaluation, e.call_ok, e.exe_ok, e.strict_ok, e.policy_ok, e.accepted, "
        "e.call_class, e.exe_class, e.policy_class, e.perf_status, e.perf_verdict, e.flags_json, e.speedup, "
        "e.speedup_lo, e.speedup_hi, (SELECT avg(strict_ok) FROM case_result WHERE evaluation = e.id), "
        "(SELECT 1 - avg(coalesce(wrong_share, 1 - ok)) FROM case_result WHERE evaluation = e.id) "
        "FROM attempt a LEFT JOIN evaluation e ON e.id = a.evaluation ORDER BY a.trajectory, a.iteration, a.slot, "
        "a.id");
    while (s.executeStep()) {
      AttemptRecord a;
      a.id = s.getColumn(0).getString();
      a.trajectory = s.getColumn(1).getString();
      a.iteration = s.getColumn(2).getInt();
      a.slot = s.getColumn(3).getInt();
      a.role = s.getColumn(4).getString();
      a.mode = s.getColumn(5).getString();
      a.reply_class = s.getColumn(6).getString();
      a.code_sha256 = s.getColumn(7).getString();
      a.normalised_sha256 = s.getColumn(8).getString();
      a.llm_call = s.getColumn(9).getString();
      a.evaluation = s.getColumn(10).getString();
      a.judged = !s.getColumn(11).isNull();
      if (a.judged) {
        a.call_ok = s.getColumn(11).getInt() != 0;
        a.exe_ok = s.getColumn(12).getInt() != 0;
        a.strict_ok = s.getColumn(13).getInt() != 0;
        a.policy_ok = s.getColumn(14).getInt() != 0;
        a.correct = s.getColumn(15).getInt() != 0;
        a.call_class = s.getColumn(16).getString();
        a.exe_class = s.getColumn(17).getString();
        a.policy_class = s.getColumn(18).getString();
        a.perf_status = s.getColumn(19).getString();
        a.perf_verdict = s.getColumn(20).getString();
        a.flags_json = s.getColumn(21).getString();
        // The cpu device says nothing of a kernel that Triton's interpreter cannot run.
        a.judged = a.call_class != unsupported && a.exe_class != unsupported;
        if (a.perf_status == "measured") {
          a.speedup = real(s.getColumn(22));
          a.speedup_lo = real(s.getColumn(23));
          a.speedup_hi = real(s.getColumn(24));
        }
        a.too_slow = a.correct && has_flag(a.flags_json, "too_slow");
        a.cases_right = real(s.getColumn(25));
        a.elements_right = real(s.getColumn(26));
      }
      const std::size_t index = records.attempts.size();
      records.attempt_index[a.id] = index;
      records.trajectories[trajectory_index.at(a.trajectory)].attempts.push_back(index);
      records.attempts.push_back(std::move(a));
    }
  }
  {
    SQLite::Statement s(db.sql(), "SELECT attempt, parent FROM attempt_parent ORDER BY attempt, position");
    while (s.executeStep())
      records.attempts[records.attempt_index.at(s.getColumn(0).getString())].parents.push_back(
          s.getColumn(1).getString());
  }
  {
    SQLite::Statement s(
        db.sql(),
        "SELECT trajectory, count(*), sum(status = 'api_error'), sum(coalesce(prompt_tokens, 0)), "
        "sum(coalesce(completion_tokens, 0)) FROM llm_call WHERE status <> 'begun' GROUP BY trajectory");
    while (s.executeStep()) {
      TrajectoryRecord& t = records.trajectories[trajectory_index.at(s.getColumn(0).getString())];
      t.calls = s.getColumn(1).getInt64();
      t.api_errors = s.getColumn(2).getInt64();
      t.prompt_tokens = s.getColumn(3).getInt64();
      t.completion_tokens = s.getColumn(4).getInt64();
    }
  }
  return records;
}

}  // namespace anneal::transitions
