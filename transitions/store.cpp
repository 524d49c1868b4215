#include "transitions/store.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "async/sha256.h"
#include "async/writer_thread.h"
#include "transitions/database.h"
#include "transitions/normalise.h"

namespace anneal::transitions {
namespace {

using boost::asio::awaitable;

void bind_or_null(SQLite::Statement& statement, int index, const std::string& value) {
  if (value.empty())
    statement.bind(index);
  else
    statement.bind(index, value);
}

template <class T>
std::optional<T> optional_column(const SQLite::Column& column) {
  if (column.isNull()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>)
    return column.getDouble();
  else
    return static_cast<T>(column.getInt64());
}

constexpr const char* kNow = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

void insert_evaluation(Database& db, const EvaluationRow& row) {
  const evaluator::Verdict& v = row.verdict;
  SQLite::Statement known(db.sql(), "SELECT 1 FROM evaluation WHERE id = ?");
  known.bind(1, row.id);
  if (known.executeStep()) return;
  const std::string verdict_text =
      db.put_text(evaluator::verdict_to_json(v).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  SQLite::Statement insert(
      db.sql(), std::string("INSERT INTO evaluation VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,") +
                    kNow + ",?,?)");
  int i = 0;
  insert.bind(++i, row.id);
  insert.bind(++i, row.device);
  insert.bind(++i, v.task);
  insert.bind(++i, v.category);
  insert.bind(++i, v.suite);
  insert.bind(++i, v.code_sha256);
  insert.bind(++i, row.normalised_sha256);
  insert.bind(++i, v.settings_sha256);
  insert.bind(++i, v.draw);
  insert.bind(++i, v.call.ok ? 1 : 0);
  insert.bind(++i, v.call.failure_class);
  insert.bind(++i, v.exe.ok ? 1 : 0);
  insert.bind(++i, v.exe.strict_ok ? 1 : 0);
  insert.bind(++i, v.exe.failure_class);
  insert.bind(++i, v.policy.ok ? 1 : 0);
  insert.bind(++i, v.policy.failure_class);
  insert.bind(++i, v.accepted ? 1 : 0);
  insert.bind(++i, v.perf.status);
  insert.bind(++i, v.perf.verdict);
  bind_optional(insert, ++i, v.perf.speedup);
  bind_optional(insert, ++i, v.perf.speedup_geomean);
  bind_optional(insert, ++i, v.perf.ci ? std::optional<double>(v.perf.ci->lo) : std::nullopt);
  bind_optional(insert, ++i, v.perf.ci ? std::optional<double>(v.perf.ci->hi) : std::nullopt);
  bind_optional(insert, ++i, v.perf.iou);
  bind_optional(insert, ++i, v.perf.mfu);
  insert.bind(++i, nlohmann::json(v.flags).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  insert.bind(++i, v.call.seconds + v.exe.seconds + v.perf.seconds);
  insert.bind(++i, verdict_text);
  insert.bind(++i, row.task_sha256);
  insert.bind(++i, row.policy_off ? 1 : 0);
  insert.exec();

  int position = 0;
  for (const evaluator::CaseVerdict& c : v.exe.cases) {
    SQLite::Statement s(db.sql(), "INSERT INTO case_result VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)");
    s.bind(1, row.id);
    s.bind(2, position++);
    s.bind(3, c.name);
    s.bind(4, c.inputs);
    s.bind(5, c.ok ? 1 : 0);
    s.bind(6, c.strict_ok ? 1 : 0);
    s.bind(7, c.failure_class);
    bind_optional(s, 8, c.max_abs);
    bind_optional(s, 9, c.max_rel);
    bind_optional(s, 10, c.cosine);
    bind_optional(s, 11, c.l1_relative);
    bind_optional(s, 12, c.rmse);
    bind_optional(s, 13, c.wrong_share);
    s.exec();
  }
  position = 0;
  for (const evaluator::PerfCase& c : v.perf.cases) {
    SQLite::Statement s(db.sql(), "INSERT INTO timing VALUES (?,?,?,?,?,?,?,?,?,?,?,?)");
    s.bind(1, row.id);
    s.bind(2, position++);
    s.bind(3, c.name);
    s.bind(4, c.baseline_ns);
    s.bind(5, c.candidate_ns);
    s.bind(6, c.speedup);
    s.bind(7, c.ci.lo);
    s.bind(8, c.ci.hi);
    s.bind(9, c.quads);
    s.bind(10, c.discarded);
    bind_optional(s, 11, c.bytes);
    bind_optional(s, 12, c.flops);
    s.exec();
  }
}

void insert_attempt(Database& db, const AttemptRow& row) {
  SQLite::Statement known(db.sql(), "SELECT 1 FROM attempt WHERE id = ?");
  known.bind(1, row.id);
  if (known.executeStep()) return;
  std::string code, normalised = row.normalised_sha256;
  if (!row.code.empty()) {
    code = db.put_text(row.code);
    if (normalised.empty()) normalised = normalised_sha256(row.code);
  }
  SQLite::Statement insert(db.sql(),
                           std::string("INSERT INTO attempt VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,") + kNow + ")");
  insert.bind(1, row.id);
  insert.bind(2, row.trajectory);
  insert.bind(3, row.iteration);
  insert.bind(4, row.slot);
  insert.bind(5, row.role);
  insert.bind(6, row.mode);
  insert.bind(7, row.reply_class);
  bind_or_null(insert, 8, code);
  insert.bind(9, code);
  insert.bind(10, normalised);
  bind_or_null(insert, 11, row.llm_call);
  bind_or_null(insert, 12, row.evaluation);
  insert.bind(13, row.strategy);
  insert.exec();
  int position = 0;
  for (const std::string& parent : row.parents) {
    SQLite::Statement s(db.sql(), "INSERT INTO attempt_parent VALUES (?,?,?)");
    s.bind(1, row.id);
    s.bind(2, position++);
    s.bind(3, parent);
    s.exec();
  }
}

void insert_call(Database& db, const llm::Request& request, const std::string& hash) {
  SQLite::Statement s(db.sql(),
                      std::string("INSERT INTO llm_call (id, trajectory, task, method, role, iteration, slot, "
                                  "sample, seed, model, request_sha256, temperature, top_p, max_tokens, "
                                  "sampling_seed, status, begun) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,'begun',") +
                          kNow + ")");
  const llm::CallPlace& place = request.place;
  s.bind(1, request.id);
  s.bind(2, request.trajectory);
  s.bind(3, place.task);
  s.bind(4, place.method);
  s.bind(5, place.role);
  s.bind(6, place.iteration);
  s.bind(7, place.slot);
  s.bind(8, place.sample);
  s.bind(9, place.seed);
  s.bind(10, request.model);
  s.bind(11, hash);
  bind_optional(s, 12, request.sampling.temperature);
  bind_optional(s, 13, request.sampling.top_p);
  bind_optional(s, 14, request.sampling.max_tokens);
  bind_optional(s, 15, request.sampling.seed);
  s.exec();
}

std::optional<EvaluationRow> read_evaluation(Database& db, SQLite::Statement& s) {
  if (!s.executeStep()) return std::nullopt;
  EvaluationRow row;
  row.id = s.getColumn(0).getString();
  row.device = s.getColumn(1).getString();
  row.normalised_sha256 = s.getColumn(2).getString();
  row.task_sha256 = s.getColumn(4).getString();
  row.policy_off = s.getColumn(5).getInt() != 0;
  row.verdict = evaluator::verdict_from_json(nlohmann::json::parse(db.text(s.getColumn(3).getString())));
  return row;
}

// The first top-level key of `stored` that `wanted` does not have likewise. One that only `wanted` has was not kept
// when `stored` was written.
std::string differing_key(const nlohmann::json& stored, const nlohmann::json& wanted) {
  if (!stored.is_object() || !wanted.is_object()) return "settings";
  for (const auto& [key, value] : stored.items())
    if (!wanted.contains(key) || wanted[key] != value) return key;
  return "";
}

// Of the keys that all trajectories of an experiment share, the first that differs.
std::string differing_device(const nlohmann::json& stored, const nlohmann::json& wanted) {
  for (const char* key : {"device_name", "settings_sha256", "prompts_sha256"})
    if (stored.contains(key) && wanted.contains(key) && stored[key] != wanted[key]) return key;
  return "";
}

Error ran_otherwise(const std::filesystem::path& file, const TrajectoryRow& row, const std::string& key,
                    const nlohmann::json& stored, const nlohmann::json& wanted) {
  const auto text = [&key](const nlohmann::json& settings) {
    const auto at = settings.find(key);
    if (at == settings.end()) return std::string("nothing");
    return at->is_string() ? at->get<std::string>() : at->dump();
  };
  const std::string where = " in " + file.string();
  std::string message;
  if (key == "device_name") {
    message = "The experiment ran on '" + text(stored) + "' (`device_name`)" + where + ", and this run's device is '" +
              text(wanted) +
              "': figures of two devices must not be mixed. Choose another --db, or name the device of "
              "before with --set device=... (on the cpu also --set target=...).";
  } else if (key == "prompts_sha256") {
    message =
        "The prompts were others when the experiment" + where +
        " began (`prompts_sha256`): figures of two sets of prompts must not be mixed. Put prompts/ back as it was, "
        "or choose another --db.";
  } else if (key == "device") {
    message = "Task " + row.task + " already ran on device " + text(stored) + " (`device`)" + where + ", not on " +
              text(wanted) + "; go on with --set device=" + text(stored) + ", or choose another --db.";
  } else if (key == "settings_sha256") {
    message =
        "The experiment ran with another judge (`settings_sha256`: its version, torch, triton, time limits and "
        "the memory of one kernel, which follows from `jobs`)" +
        where + "; restore them, or choose another --db.";
  } else {
    message = "Task " + row.task + " already ran with another `" + key + "` of method " + row.method + where +
              "; restore it, or choose another experiment name or --db.";
  }
  return {ErrorKind::bad_input, message};
}

class SqliteStore final : public Store {
 public:
  explicit SqliteStore(std::unique_ptr<Database> db) : db_(std::move(db)) {}

  awaitable<Result<void>> put_experiment(ExperimentRow row) override {
    return write([row = std::move(row)](Database& db) -> Result<void> {
      SQLite::Statement s(db.sql(), std::string("INSERT INTO experiment VALUES (?,?,?,?,?,?,") + kNow +
                                        ") ON CONFLICT (id) DO NOTHING");
      s.bind(1, row.id);
      s.bind(2, row.name);
      s.bind(3, row.suite);
      s.bind(4, row.config_text);
      s.bind(5, row.config_json);
      s.bind(6, row.software_json);
      s.exec();
      return {};
    });
  }

  awaitable<Result<void>> put_task(TaskRow row) override {
    return write([row = std::move(row)](Database& db) -> Result<void> {
      SQLite::Statement known(db.sql(), "SELECT file_sha256 FROM task WHERE id = ?");
      known.bind(1, row.id);
      if (known.executeStep()) {
        // Verdicts of two references must not be mixed.
        if (known.getColumn(0).getString() == row.file_sha256) return {};
        return fail(ErrorKind::bad_input, "The file of task " + row.id + " changed since it first ran in " +
                                              db.file().string() +
                                              "; restore it, or choose another experiment name or --db.");
      }
      SQLite::Statement s(db.sql(), "INSERT INTO task VALUES (?,?,?,?,?,?,?,?,?)");
      s.bind(1, row.id);
      s.bind(2, row.suite);
      s.bind(3, row.stem);
      s.bind(4, row.category);
      s.bind(5, row.precision);
      s.bind(6, row.signature);
      s.bind(7, db.put_text(row.description));
      s.bind(8, row.file_sha256);
      s.bind(9, row.difficulty);
      s.exec();
      return {};
    });
  }

  awaitable<Result<void>> put_trajectory(TrajectoryRow row) override {
    return write([row = std::move(row)](Database& db) -> Result<void> {
      const nlohmann::json wanted = nlohmann::json::parse(row.settings_json, nullptr, false);
      SQLite::Statement known(db.sql(), "SELECT settings_json FROM trajectory WHERE id = ?");
      known.bind(1, row.id);
      if (known.executeStep()) {
        if (known.getColumn(0).getString() == row.settings_json) return {};
        const nlohmann::json stored = nlohmann::json::parse(known.getColumn(0).getString(), nullptr, false);
        const std::string key = differing_key(stored, wanted);
        if (!key.empty()) return tl::unexpected<Error>(ran_otherwise(db.file(), row, key, stored, wanted));
        SQLite::Statement complete(db.sql(), "UPDATE trajectory SET settings_json = ? WHERE id = ?");
        complete.bind(1, row.settings_json);
        complete.bind(2, row.id);
        complete.exec();
        return {};
      }
      // All that are stored agree, so one is enough to ask.
      SQLite::Statement other(db.sql(),
                              "SELECT settings_json FROM trajectory WHERE experiment = ? AND "
                              "json_extract(settings_json, '$.device_name') IS NOT NULL LIMIT 1");
      other.bind(1, row.experiment);
      if (other.executeStep()) {
        const nlohmann::json stored = nlohmann::json::parse(other.getColumn(0).getString(), nullptr, false);
        const std::string key = differing_device(stored, wanted);
        if (!key.empty()) return tl::unexpected<Error>(ran_otherwise(db.file(), row, key, stored, wanted));
      }
      SQLite::Statement s(db.sql(), "INSERT INTO trajectory VALUES (?,?,?,?,?,?,?)");
      s.bind(1, row.id);
      s.bind(2, row.experiment);
      s.bind(3, row.task);
      s.bind(4, row.method);
      s.bind(5, row.model);
      s.bind(6, row.seed);
      s.bind(7, row.settings_json);
      s.exec();
      return {};
    });
  }

  awaitable<Result<void>> put_device(DeviceRow row) override {
    return write([row = std::move(row)](Database& db) -> Result<void> {
      SQLite::Statement s(db.sql(), "INSERT INTO device VALUES (?,?,?,?) ON CONFLICT (id) DO NOTHING");
      s.bind(1, row.id);
      s.bind(2, row.name);
      s.bind(3, row.device_name);
      s.bind(4, row.facts_json);
      s.exec();
      return {};
    });
  }

  awaitable<Result<void>> put_evaluation(EvaluationRow row) override {
    return write([row = std::move(row)](Database& db) -> Result<void> {
      insert_evaluation(db, row);
      return {};
    });
  }

  awaitable<Result<void>> put_attempt(AttemptRow row) override {
    return write([row = std::move(row)](Database& db) -> Result<void> {
      insert_attempt(db, row);
      return {};
    });
  }

  awaitable<Result<void>> put_event(std::string subject, std::string kind, std::string data) override {
    return write(
        [subject = std::move(subject), kind = std::move(kind), data = std::move(data)](Database& db) -> Result<void> {
          SQLite::Statement s(db.sql(),
                              std::string("INSERT INTO event (at, subject, kind, data) VALUES (") + kNow + ",?,?,?)");
          s.bind(1, subject);
          s.bind(2, kind);
          s.bind(3, data);
          s.exec();
          return {};
        });
  }

  awaitable<Result<std::optional<llm::Reply>>> find_reply(std::string request_id, std::string request_hash) override {
    return read<std::optional<llm::Reply>>([id = std::move(request_id), hash = std::move(request_hash)](
                                               Database& db) -> Result<std::optional<llm::Reply>> {
      SQLite::Statement s(
          db.sql(),
          "SELECT request_sha256, status, reply, reasoning, finish_reason, served_model, prompt_tokens, "
          "completion_tokens, reasoning_tokens, cached_tokens, http_status, attempts, latency_seconds, task, "
          "method, iteration FROM llm_call WHERE id = ?");
      s.bind(1, id);
      if (!s.executeStep()) return std::optional<llm::Reply>();
      // A call that was never answered may be made with another prompt: an earlier one may have been asked again since.
      if (s.getColumn(1).getString() != "ok") return std::optional<llm::Reply>();
      if (s.getColumn(0).getString() != hash)
        return fail(ErrorKind::bad_input,
                    "The request of task " + s.getColumn(13).getString() + ", method " + s.getColumn(14).getString() +
                        ", iteration " + s.getColumn(15).getString() + " differs from the one stored in " +
                        db.file().string() +
                        ": prompts or the configuration changed under an existing experiment. Restore them, or "
                        "choose another experiment name or --db.");
      llm::Reply reply;
      reply.ok = true;
      reply.text = db.text(s.getColumn(2).getString());
      reply.reasoning = db.text(s.getColumn(3).getString());
      reply.finish_reason = s.getColumn(4).getString();
      reply.served_model = s.getColumn(5).getString();
      reply.usage.prompt_tokens = optional_column<std::int64_t>(s.getColumn(6));
      reply.usage.completion_tokens = optional_column<std::int64_t>(s.getColumn(7));
      reply.usage.reasoning_tokens = optional_column<std::int64_t>(s.getColumn(8));
      reply.usage.cached_tokens = optional_column<std::int64_t>(s.getColumn(9));
      reply.http_status = s.getColumn(10).getInt();
      reply.attempts = s.getColumn(11).getInt();
      reply.latency_seconds = s.getColumn(12).getDouble();
      return std::optional<llm::Reply>(std::move(reply));
    });
  }

  awaitable<Result<void>> begin_call(llm::Request request, std::string request_hash) override {
    return write([request = std::move(request), hash = std::move(request_hash)](Database& db) -> Result<void> {
      SQLite::Statement known(db.sql(), "SELECT request_sha256, status FROM llm_call WHERE id = ?");
      known.bind(1, request.id);
      const bool there = known.executeStep();
      if (there) {
        if (known.getColumn(0).getString() == hash || known.getColumn(1).getString() == "ok") return {};
        // Never answered: its sampling is that of the trajectory, its prompt is this one from now on.
        SQLite::Statement forget(db.sql(), "DELETE FROM llm_message WHERE call = ?");
        forget.bind(1, request.id);
        forget.exec();
        SQLite::Statement renew(db.sql(), "UPDATE llm_call SET request_sha256 = ?, status = 'begun' WHERE id = ?");
        renew.bind(1, hash);
        renew.bind(2, request.id);
        renew.exec();
      } else {
        insert_call(db, request, hash);
      }
      int position = 0;
      for (const llm::Message& message : request.messages) {
        SQLite::Statement m(db.sql(), "INSERT INTO llm_message VALUES (?,?,?,?)");
        m.bind(1, request.id);
        m.bind(2, position++);
        m.bind(3, message.role);
        m.bind(4, db.put_text(message.content));
        m.exec();
      }
      return {};
    });
  }

  awaitable<Result<void>> finish_call(std::string request_id, llm::Reply reply) override {
    return write([id = std::move(request_id), reply = std::move(reply)](Database& db) -> Result<void> {
      SQLite::Statement s(
          db.sql(), std::string("UPDATE llm_call SET status = ?, reply = ?, reasoning = ?, finish_reason = ?, "
                                "served_model = ?, prompt_tokens = ?, completion_tokens = ?, reasoning_tokens = ?, "
                                "cached_tokens = ?, http_status = ?, attempts = coalesce(attempts, 0) + ?, "
                                "latency_seconds = ?, error = ?, "
                                "finished = ") +
                        kNow + " WHERE id = ? AND status <> 'ok'");
      s.bind(1, reply.ok ? "ok" : "api_error");
      bind_or_null(s, 2, reply.text.empty() ? std::string() : db.put_text(reply.text));
      bind_or_null(s, 3, reply.reasoning.empty() ? std::string() : db.put_text(reply.reasoning));
      s.bind(4, reply.finish_reason);
      s.bind(5, reply.served_model);
      bind_optional(s, 6, reply.usage.prompt_tokens);
      bind_optional(s, 7, reply.usage.completion_tokens);
      bind_optional(s, 8, reply.usage.reasoning_tokens);
      bind_optional(s, 9, reply.usage.cached_tokens);
      s.bind(10, reply.http_status);
      s.bind(11, reply.attempts);
      s.bind(12, reply.latency_seconds);
      s.bind(13, reply.error);
      s.bind(14, id);
      if (s.exec() == 1) return {};
      SQLite::Statement known(db.sql(), "SELECT 1 FROM llm_call WHERE id = ?");
      known.bind(1, id);
      if (known.executeStep()) return {};  // answered before: the first reply stays
      return fail(ErrorKind::internal, "finish_call of " + id + " without begin_call.");
    });
  }

  awaitable<Result<std::optional<ExperimentRow>>> find_experiment() override {
    return read<std::optional<ExperimentRow>>([](Database& db) -> Result<std::optional<ExperimentRow>> {
      SQLite::Statement s(db.sql(),
                          "SELECT id, name, suite, config_text, config_json, software_json FROM experiment "
                          "ORDER BY created, id LIMIT 1");
      if (!s.executeStep()) return std::optional<ExperimentRow>();
      return std::optional<ExperimentRow>(ExperimentRow{s.getColumn(0).getString(), s.getColumn(1).getString(),
                                                        s.getColumn(2).getString(), s.getColumn(3).getString(),
                                                        s.getColumn(4).getString(), s.getColumn(5).getString()});
    });
  }

  awaitable<Result<std::optional<AttemptRow>>> find_attempt(std::string id) override {
    return read<std::optional<AttemptRow>>([id = std::move(id)](Database& db) -> Result<std::optional<AttemptRow>> {
      SQLite::Statement s(db.sql(),
                          "SELECT id, trajectory, iteration, slot, role, mode, reply_class, code, code_sha256, "
                          "normalised_sha256, llm_call, evaluation, strategy FROM attempt WHERE id = ?");
      s.bind(1, id);
      if (!s.executeStep()) return std::optional<AttemptRow>();
      AttemptRow row;
      row.id = s.getColumn(0).getString();
      row.trajectory = s.getColumn(1).getString();
      row.iteration = s.getColumn(2).getInt();
      row.slot = s.getColumn(3).getInt();
      row.role = s.getColumn(4).getString();
      row.mode = s.getColumn(5).getString();
      row.reply_class = s.getColumn(6).getString();
      row.code = db.text(s.getColumn(7).getString());
      row.code_sha256 = s.getColumn(8).getString();
      row.normalised_sha256 = s.getColumn(9).getString();
      row.llm_call = s.getColumn(10).getString();
      row.evaluation = s.getColumn(11).getString();
      row.strategy = s.getColumn(12).getString();
      SQLite::Statement parents(db.sql(), "SELECT parent FROM attempt_parent WHERE attempt = ? ORDER BY position");
      parents.bind(1, id);
      while (parents.executeStep()) row.parents.push_back(parents.getColumn(0).getString());
      return std::optional<AttemptRow>(std::move(row));
    });
  }

  awaitable<Result<std::optional<EvaluationRow>>> find_evaluation(std::string id) override {
    return read<std::optional<EvaluationRow>>(
        [id = std::move(id)](Database& db) -> Result<std::optional<EvaluationRow>> {
          SQLite::Statement s(db.sql(),
                              "SELECT id, device, normalised_sha256, verdict, task_sha256, policy_off "
                              "FROM evaluation WHERE id = ?");
          s.bind(1, id);
          return read_evaluation(db, s);
        });
  }

  awaitable<Result<std::vector<TrajectoryState>>> trajectory_states() override {
    return read<std::vector<TrajectoryState>>([](Database& db) -> Result<std::vector<TrajectoryState>> {
      std::vector<TrajectoryState> states;
      SQLite::Statement s(db.sql(),
                          "SELECT subject, kind, data FROM event WHERE number IN (SELECT max(number) FROM event WHERE "
                          "kind LIKE 'trajectory\\_%' ESCAPE '\\' GROUP BY subject) ORDER BY subject");
      while (s.executeStep()) {
        const std::string kind = s.getColumn(1).getString();
        std::string state = "running";
        if (kind == "trajectory_done") state = "done";
        if (kind == "trajectory_failed") {
          const nlohmann::json data = nlohmann::json::parse(s.getColumn(2).getString(), nullptr, false);
          state = "failed: ";
          state += data.is_object() && data.contains("reason") && data["reason"].is_string()
                       ? data["reason"].get<std::string>()
                       : s.getColumn(2).getString();
        }
        states.push_back({s.getColumn(0).getString(), state});
      }
      return states;
    });
  }

  awaitable<Result<void>> close() override {
    auto work = [this]() -> Result<void> {
      try {
        // What could not be written before will not be now; the WAL keeps what was.
        if (db_ && !broken_) db_->checkpoint();
        db_.reset();
        if (broken_) return tl::unexpected<Error>(*broken_);
        return {};
      } catch (const std::exception& error) {
        return tl::unexpected<Error>(database_error(db_->file(), error));
      }
    };
    return thread_.run(std::move(work));
  }

 private:
  template <class T, class F>
  awaitable<Result<T>> read(F body) {
    auto work = [this, body = std::move(body)]() -> Result<T> {
      if (!db_) return fail(ErrorKind::internal, "The store is closed.");
      if (broken_) return tl::unexpected<Error>(*broken_);
      try {
        return body(*db_);
      } catch (const std::exception& error) {
        broken_ = database_error(db_->file(), error);
        return tl::unexpected<Error>(*broken_);
      }
    };
    return thread_.run(std::move(work));
  }

  // One durable transaction; rolled back when `body` fails.
  template <class F>
  awaitable<Result<void>> write(F body) {
    return read<void>([body = std::move(body)](Database& db) -> Result<void> {
      SQLite::Transaction transaction(db.sql(), SQLite::TransactionBehavior::IMMEDIATE);
      Result<void> done = body(db);
      if (done) transaction.commit();
      return done;
    });
  }

  std::unique_ptr<Database> db_;
  std::optional<Error> broken_;  // by the first failure: later rows must not be kept where earlier ones are missing
  WriterThread thread_;          // after db_: joined before the database closes
};

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const std::filesystem::path& file) {
  Result<std::unique_ptr<Database>> db = Database::open(file, Database::Mode::create_or_open);
  if (!db) return tl::unexpected<Error>(db.error());
  return std::make_unique<SqliteStore>(*std::move(db));
}

}  // namespace anneal::transitions
