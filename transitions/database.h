// The SQLite file itself, synchronously: schema, migrations, content-addressed texts. Store runs one of these on its
// writer thread; report, export and inspect open one read-only. Not thread-safe.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "async/result.h"

namespace anneal::transitions {

inline constexpr int kApplicationId = 0x616e6e6c;  // "annl", PRAGMA application_id
inline constexpr int kSchemaVersion = 2;           // PRAGMA user_version

// Whether `file` begins as a SQLite file does; false where it cannot be read.
bool is_database(const std::filesystem::path& file);

// What went wrong with the database `file`, and what to do: an unusable database is ErrorKind::missing.
Error database_error(const std::filesystem::path& file, const std::exception& thrown);

// No value is NULL.
template <class T>
void bind_optional(SQLite::Statement& statement, int index, const std::optional<T>& value) {
  if (value)
    statement.bind(index, *value);
  else
    statement.bind(index);
}

class Database {
 public:
  enum class Mode { create_or_open, read_only };

  // Opens the file and, when writing, takes an exclusive flock on FILE.lock and applies missing migrations in one
  // transaction. Makes no folder. Errors: missing (no such folder, a folder itself, unwritable, damaged, newer schema,
  // not a database, another application's, locked).
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
