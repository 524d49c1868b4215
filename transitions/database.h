// The SQLite file itself, synchronously: schema, migrations, content-addressed texts. Store runs one of these on its
// writer thread; report, export and inspect open one read-only. Not thread-safe.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "async/result.h"

namespace anneal::transitions {

inline constexpr int kApplicationId = 0x616e6e6c;  // "annl", PRAGMA application_id
inline constexpr int kSchemaVersion = 1;           // PRAGMA user_version

class Database {
 public:
  enum class Mode { create_or_open, read_only };

  // Opens the file and, when writing, takes an exclusive flock on FILE.lock and applies missing migrations in one
  // transaction. Errors: missing (unwritable, newer schema, not a database, another application's, locked), io.
  static Result<std::unique_ptr<Database>> open(const std::filesystem::path& file, Mode mode);
  ~Database();

  SQLite::Database& sql() { return *sql_; }
  const std::filesystem::path& file() const { return file_; }

  // Stores `text` once, under its SHA-256 (returned, lower-case hex). Throws SQLite::Exception.
  std::string put_text(std::string_view text);
  // The text of that name. Throws std::runtime_error when it is absent or damaged. The empty name is the empty text.
  std::string text(const std::string& sha256);

  // Copies the WAL into the file and empties it. Throws SQLite::Exception.
  void checkpoint();

 private:
  Database() = default;

  std::filesystem::path file_;
  int lock_fd_ = -1;
  std::unique_ptr<SQLite::Database> sql_;
};

}  // namespace anneal::transitions
