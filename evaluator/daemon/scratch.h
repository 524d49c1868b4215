// Where candidates' files lie: one folder a daemon in the temporary folder, one folder a candidate in it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "evaluator/daemon/unique_fd.h"

namespace anneal::evaluator {

// The daemon's own folder, locked as long as the daemon lives: what another one finds unlocked was left by a daemon
// that was killed.
class RunFolder {
 public:
  // Removes those that earlier daemons of this user left, then makes one. Throws std::system_error. To be made after
  // the zygote, whose children would hold the lock on.
  static std::unique_ptr<RunFolder> create();
  ~RunFolder() { remove(); }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }

  // With all that lies in it. Candidates that are still ending may make files meanwhile: tried for two seconds, and
  // what is left then the next daemon removes.
  void remove();

 private:
  RunFolder(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  UniqueFd lock_;
};

// The only folder that a candidate may write. Removed with all that it left there.
class ScratchFolder {
 public:
  // In the folder `run`. user: whom it is given to; nullopt: it stays the judge's own. Throws MachineFault.
  ScratchFolder(const std::string& run, std::optional<unsigned> user);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace anneal::evaluator
