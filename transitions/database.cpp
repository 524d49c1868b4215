#include "transitions/database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>
#include <zstd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "async/sha256.h"

namespace anneal::transitions {
namespace {

// Migration i brings user_version from i to i + 1. Published ones are never edited.
constexpr std::array<const char*, kSchemaVersion> kMigrations = {R"sql(
CREATE TABLE text (sha256 TEXT PRIMARY KEY, size INTEGER NOT NULL, zstd BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE experiment (id TEXT PRIMARY KEY, name TEXT NOT NULL, suite TEXT NOT NULL, config_text TEXT NOT NULL,
  config_json TEXT NOT NULL, software_json TEXT NOT NULL, created TEXT NOT NULL) STRICT;
CREATE TABLE task (id TEXT PRIMARY KEY, suite TEXT NOT NULL, stem TEXT NOT NULL, category TEXT NOT NULL,
  precision TEXT NOT NULL, signature TEXT NOT NULL, description TEXT NOT NULL REFERENCES text(sha256),
  file_sha256 TEXT NOT NULL, difficulty INTEGER NOT NULL) STRICT;
CREATE TABLE trajectory (id TEXT PRIMARY KEY, experiment TEXT NOT NULL REFERENCES experiment(id),
  task TEXT NOT NULL REFERENCES task(id), method TEXT NOT NULL, model TEXT NOT NULL, seed INTEGER NOT NULL,
  settings_json TEXT NOT NULL) STRICT;
CREATE TABLE device (id TEXT PRIMARY KEY, name TEXT NOT NULL, device_name TEXT NOT NULL,
  facts_json TEXT NOT NULL) STRICT;
CREATE TABLE llm_call (id TEXT PRIMARY KEY, trajectory TEXT NOT NULL REFERENCES trajectory(id), task TEXT NOT NULL,
  method TEXT NOT NULL, role TEXT NOT NULL, iteration INTEGER NOT NULL, slot INTEGER NOT NULL,
  sample INTEGER NOT NULL, seed INTEGER NOT NULL, model TEXT NOT NULL, request_sha256 TEXT NOT NULL,
  temperature REAL, top_p REAL, max_tokens INTEGER, sampling_seed INTEGER,
  status TEXT NOT NULL CHECK (status IN ('begun', 'ok', 'api_error')),
  reply TEXT REFERENCES text(sha256), reasoning TEXT REFERENCES text(sha256), finish_reason TEXT, served_model TEXT,
  prompt_tokens INTEGER, completion_tokens INTEGER, reasoning_tokens INTEGER, cached_tokens INTEGER,
  http_status INTEGER, attempts INTEGER, latency_seconds REAL, error TEXT, begun TEXT NOT NULL, finished TEXT) STRICT;
CREATE TABLE llm_message (call TEXT NOT NULL REFERENCES llm_call(id), position INTEGER NOT NULL, role TEXT NOT NULL,
  content TEXT NOT NULL REFERENCES text(sha256), PRIMARY KEY (call, position)) STRICT, WITHOUT ROWID;
CREATE TABLE evaluation (id TEXT PRIMARY KEY, device TEXT NOT NULL REFERENCES device(id), task TEXT NOT NULL,
  category TEXT NOT NULL, suite TEXT NOT NULL, code_sha256 TEXT NOT NULL, normalised_sha256 TEXT NOT NULL,
  settings_sha256 TEXT NOT NULL, draw TEXT NOT NULL, call_ok INTEGER NOT NULL, call_class TEXT NOT NULL,
  exe_ok INTEGER NOT NULL, strict_ok INTEGER NOT NULL, exe_class TEXT NOT NULL, policy_ok INTEGER NOT NULL,
  policy_class TEXT NOT NULL, accepted INTEGER NOT NULL, perf_status TEXT NOT NULL, perf_verdict TEXT NOT NULL,
  speedup REAL, speedup_geomean REAL, speedup_lo REAL, speedup_hi REAL, iou REAL, mfu REAL, flags_json TEXT NOT NULL,
  seconds REAL NOT NULL, verdict TEXT NOT NULL REFERENCES text(sha256), created TEXT NOT NULL) STRICT;
CREATE INDEX evaluation_of ON evaluation (normalised_sha256, task, device, settings_sha256);
CREATE TABLE case_result (evaluation TEXT NOT NULL REFERENCES evaluation(id), position INTEGER NOT NULL,
  name TEXT NOT NULL, inputs TEXT NOT NULL, ok INTEGER NOT NULL, strict_ok INTEGER NOT NULL, class TEXT NOT NULL,
  max_abs REAL, max_rel REAL, cosine REAL, l1_relative REAL, rmse REAL, wrong_share REAL,
  PRIMARY KEY (evaluation, position)) STRICT, WITHOUT ROWID;
CREATE TABLE timing (evaluation TEXT NOT NULL REFERENCES evaluation(id), position INTEGER NOT NULL,
  name TEXT NOT NULL, baseline_ns REAL NOT NULL, candidate_ns REAL NOT NULL, speedup REAL NOT NULL, lo REAL NOT NULL,
  hi REAL NOT NULL, quads INTEGER NOT NULL, discarded INTEGER NOT NULL, bytes REAL, flops REAL,
  PRIMARY KEY (evaluation, position)) STRICT, WITHOUT ROWID;
CREATE TABLE attempt (id TEXT PRIMARY KEY, trajectory TEXT NOT NULL REFERENCES trajectory(id),
  iteration INTEGER NOT NULL, slot INTEGER NOT NULL, role TEXT NOT NULL, mode TEXT NOT NULL,
  reply_class TEXT NOT NULL, code TEXT REFERENCES text(sha256), code_sha256 TEXT NOT NULL,
  normalised_sha256 TEXT NOT NULL, llm_call TEXT REFERENCES llm_call(id),
  evaluation TEXT REFERENCES evaluation(id), strategy TEXT NOT NULL, created TEXT NOT NULL) STRICT;
CREATE INDEX attempt_of ON attempt (trajectory, iteration, slot);
CREATE TABLE attempt_parent (attempt TEXT NOT NULL REFERENCES attempt(id), position INTEGER NOT NULL,
  parent TEXT NOT NULL REFERENCES attempt(id), PRIMARY KEY (attempt, position)) STRICT, WITHOUT ROWID;
CREATE TABLE event (number INTEGER PRIMARY KEY, at TEXT NOT NULL, subject TEXT NOT NULL, kind TEXT NOT NULL,
  data TEXT NOT NULL) STRICT;
CREATE INDEX event_of ON event (subject, number);
CREATE TABLE transition (parent TEXT NOT NULL, child TEXT NOT NULL, trajectory TEXT NOT NULL,
  iteration INTEGER NOT NULL, kind TEXT NOT NULL, weight REAL NOT NULL, parent_code TEXT NOT NULL,
  child_code TEXT NOT NULL, lines_added INTEGER NOT NULL, lines_removed INTEGER NOT NULL, ratio REAL,
  ratio_source TEXT NOT NULL, stage_before TEXT NOT NULL, stage_after TEXT NOT NULL, cases_right_before REAL,
  cases_right_after REAL, elements_right_before REAL, elements_right_after REAL,
  PRIMARY KEY (parent, child)) STRICT, WITHOUT ROWID;
)sql",
                                                                 R"sql(
-- What a verdict depends on beside code, device and settings. Null and '': from before it was kept, so never found again.
ALTER TABLE evaluation ADD COLUMN task_sha256 TEXT NOT NULL DEFAULT '';
ALTER TABLE evaluation ADD COLUMN policy_off INTEGER;
UPDATE evaluation SET task_sha256 = coalesce((SELECT file_sha256 FROM task WHERE task.id = evaluation.task), '');
-- The device that a trajectory ran on, for those that have a verdict.
UPDATE trajectory SET settings_json = json_set(settings_json,
  '$.device_name', (SELECT d.device_name FROM attempt a JOIN evaluation e ON e.id = a.evaluation
                    JOIN device d ON d.id = e.device WHERE a.trajectory = trajectory.id LIMIT 1),
  '$.settings_sha256', (SELECT e.settings_sha256 FROM attempt a JOIN evaluation e ON e.id = a.evaluation
                        WHERE a.trajectory = trajectory.id LIMIT 1))
  WHERE id IN (SELECT trajectory FROM attempt WHERE evaluation IS NOT NULL);
)sql"};

int pragma_int(SQLite::Database& sql, const char* name) {
  return sql.execAndGet(std::string("PRAGMA ") + name).getInt();
}

std::string damaged(const std::string& name, const std::string& how) {
  return name + " is damaged (" + how + "). Restore a copy, or save what can be read with sqlite3's .recover.";
}

// SQLite's name for the file as one that nobody changes (sqlite.org/uri.html, "immutable"): readable where neither -wal
// nor -shm can be made beside it.
std::string immutable_uri(const std::filesystem::path& file) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(file).string()) {
    if (c == '%' || c == '?' || c == '#') {
      constexpr const char* hex = "0123456789ABCDEF";
      uri += {'%', hex[static_cast<unsigned char>(c) >> 4], hex[c & 15]};
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

// Opens to read, also from a folder or file system that cannot be written. Throws SQLite::Exception.
std::unique_ptr<SQLite::Database> connect_to_read(const std::filesystem::path& file) {
  try {
    auto sql = std::make_unique<SQLite::Database>(file.string(), SQLite::OPEN_READONLY, 10'000);
    pragma_int(*sql, "user_version");  // the first read makes -shm
    return sql;
  } catch (const SQLite::Exception& thrown) {
    const int code = thrown.getErrorCode() & 0xff;
    std::error_code error;
    const auto wal = std::filesystem::file_size(file.string() + "-wal", error);
    const bool changes_beside = !error && wal > 0;
    if ((code != SQLITE_CANTOPEN && code != SQLITE_READONLY) || ::access(file.c_str(), R_OK) != 0 || changes_beside)
      throw;
    return std::make_unique<SQLite::Database>(immutable_uri(file), SQLite::OPEN_READONLY | SQLite::OPEN_URI, 10'000);
  }
}

// Whether the file ends before its last page does. What a WAL holds may not be in the file yet.
bool is_cut_off(SQLite::Database& sql, const std::string& name) {
  std::error_code error;
  const auto wal = std::filesystem::file_size(name + "-wal", error);
  if (!error && wal > 0) return false;
  const auto size = std::filesystem::file_size(name, error);
  const auto pages = static_cast<std::uintmax_t>(sql.execAndGet("PRAGMA page_count").getInt64());
  return !error && size < pages * static_cast<std::uintmax_t>(sql.execAndGet("PRAGMA page_size").getInt64());
}

}  // namespace

bool is_database(const std::filesystem::path& file) {
  std::string head(15, '\0');
  std::ifstream(file, std::ios::binary).read(head.data(), static_cast<std::streamsize>(head.size()));
  return head == "SQLite format 3";
}

Error database_error(const std::filesystem::path& file, const std::exception& thrown) {
  const std::string name = file.string();
  const auto* sqlite = dynamic_cast<const SQLite::Exception*>(&thrown);
  switch (sqlite == nullptr ? SQLITE_OK : sqlite->getErrorCode() & 0xff) {
    case SQLITE_NOTADB:
      return {ErrorKind::missing, name + " is not a SQLite database, or its beginning is damaged."};
    case SQLITE_CORRUPT:
      return {ErrorKind::missing, damaged(name, thrown.what())};
    case SQLITE_FULL:
      return {ErrorKind::missing, name + ": the disk is full. What was stored is kept; make space and run again."};
    case SQLITE_IOERR:
      return {ErrorKind::missing, name + ": reading or writing failed (" + thrown.what() +
                                      "). What was stored is kept; see to the disk and run again."};
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM: {
      // SQLite says no more than that it could not: the system knows why.
      if (::access(name.c_str(), R_OK) != 0)
        return {ErrorKind::missing, "Cannot open " + name + ": " + std::strerror(errno) + "."};
      std::error_code error;
      if (std::filesystem::file_size(name + "-wal", error) > 0 && !error) {
        return {ErrorKind::missing, "Cannot open " + name + ": changes wait in " + name +
                                        "-wal, and its folder cannot be written; copy both to one that can."};
      }
      return {ErrorKind::missing, "Cannot open " + name + ": " + thrown.what() + "."};
    }
    default:
      return {ErrorKind::missing, name + ": " + thrown.what() + "."};
  }
}

Result<std::unique_ptr<Database>> Database::open(const std::filesystem::path& file, Mode mode) {
  const std::string name = file.string();
  std::unique_ptr<Database> self(new Database);
  self->file_ = file;
  try {
    const bool write = mode == Mode::create_or_open;
    std::error_code error;
    if (std::filesystem::is_directory(file, error)) {
      return fail(ErrorKind::missing, name + " is a folder; name a database file in it, e.g. " +
                                          (file / "experiment.db").lexically_normal().string() + ".");
    }
    if (write) {
      // Not made here: a mistyped path would become folders.
      if (const auto folder = file.parent_path(); !folder.empty() && !std::filesystem::exists(folder, error)) {
        return fail(ErrorKind::missing,
                    name + ": the folder " + folder.string() + " does not exist; make it, or " + "name another file.");
      }
      const std::string lock = name + ".lock";
      self->lock_fd_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
      if (self->lock_fd_ < 0)
        return fail(ErrorKind::missing,
                    "Cannot write " + name + " (its lock file " + lock + ": " + std::strerror(errno) + ").");
      if (::flock(self->lock_fd_, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
          return fail(ErrorKind::missing,
                      name + " is in use by another run; wait for it to end, or choose another --db.");
        return fail(ErrorKind::missing, "Cannot lock " + lock + ": " + std::strerror(errno) + ".");
      }
    } else if (!std::filesystem::exists(file, error)) {
      return fail(ErrorKind::missing,
                  error ? "Cannot open " + name + ": " + error.message() + "." : name + " does not exist.");
    }
    self->sql_ = write ? std::make_unique<SQLite::Database>(name, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, 10'000)
                       : connect_to_read(file);
    SQLite::Database& sql = *self->sql_;
    const int version = pragma_int(sql, "user_version");  // the first read: fails here if it is no database
    if (is_cut_off(sql, name)) return fail(ErrorKind::missing, damaged(name, "its end is missing"));
    const int application = pragma_int(sql, "application_id");
    const int objects = sql.execAndGet("SELECT count(*) FROM sqlite_schema").getInt();
    const bool fresh = version == 0 && application == 0 && objects == 0;
    if (!fresh && application != kApplicationId)
      return fail(ErrorKind::missing, name + " is a SQLite file of another application, not a store of anneal.");
    if (version > kSchemaVersion)
      return fail(ErrorKind::missing, name + " has schema version " + std::to_string(version) +
                                          "; this anneal knows version " + std::to_string(kSchemaVersion) +
                                          ". Update anneal to open it.");
    if (fresh && !write) return fail(ErrorKind::missing, name + " is empty: no experiment was ever run into it.");
    sql.exec("PRAGMA foreign_keys = ON");
    if (write) {
      if (sqlite3_db_readonly(sql.getHandle(), "main") == 1)
        return fail(ErrorKind::missing, name + " is not writable.");
      sql.execAndGet("PRAGMA journal_mode = WAL");
      sql.exec("PRAGMA synchronous = FULL");
      if (version < kSchemaVersion) {
        SQLite::Transaction transaction(sql, SQLite::TransactionBehavior::IMMEDIATE);
        for (int i = version; i < kSchemaVersion; ++i) sql.exec(kMigrations[static_cast<std::size_t>(i)]);
        sql.exec("PRAGMA application_id = " + std::to_string(kApplicationId));
        sql.exec("PRAGMA user_version = " + std::to_string(kSchemaVersion));
        transaction.commit();
      }
    } else if (version < kSchemaVersion) {
      return fail(ErrorKind::missing, name + " has the older schema version " + std::to_string(version) +
                                          "; open it once with `anneal run` to migrate it to " +
                                          std::to_string(kSchemaVersion) + ".");
    }
    return self;
  } catch (const SQLite::Exception& error) {
    return tl::unexpected<Error>(database_error(file, error));
  }
}

Database::~Database() {
  sql_.reset();
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

std::string Database::put_text(std::string_view text) {
  const std::string name = sha256_hex(text);
  SQLite::Statement known(*sql_, "SELECT 1 FROM text WHERE sha256 = ?");
  known.bind(1, name);
  if (known.executeStep()) return name;
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3);
  if (ZSTD_isError(size)) throw std::runtime_error(std::string("zstd: ") + ZSTD_getErrorName(size));
  SQLite::Statement insert(*sql_, "INSERT INTO text (sha256, size, zstd) VALUES (?, ?, ?)");
  insert.bind(1, name);
  insert.bind(2, static_cast<std::int64_t>(text.size()));
  insert.bind(3, packed.data(), static_cast<int>(size));
  insert.exec();
  return name;
}

std::string Database::text(const std::string& sha256) {
  if (sha256.empty()) return {};
  SQLite::Statement find(*sql_, "SELECT size, zstd FROM text WHERE sha256 = ?");
  find.bind(1, sha256);
  if (!find.executeStep()) throw std::runtime_error(file_.string() + " lacks the text " + sha256);
  std::string text(static_cast<std::size_t>(find.getColumn(0).getInt64()), '\0');
  const SQLite::Column packed = find.getColumn(1);
  const std::size_t size =
      ZSTD_decompress(text.data(), text.size(), packed.getBlob(), static_cast<std::size_t>(packed.getBytes()));
  if (ZSTD_isError(size) || size != text.size())
    throw std::runtime_error(file_.string() + " holds a damaged text " + sha256);
  return text;
}

void Database::checkpoint() { sql_->execAndGet("PRAGMA wal_checkpoint(TRUNCATE)"); }

}  // namespace anneal::transitions
