// What stands between a candidate and everything else. Entered in the candidate's own processes, after the fork.
#pragma once

#include <cstdint>
#include <string>

#include "evaluator/daemon/file_view.h"

namespace anneal::evaluator {

struct SandboxSettings {
  FileView files;
  bool on_gpu = false;
  unsigned user = 65534;  // of this candidate alone: the limit on processes counts by user
};

// What this machine allows; tried once at start by the zygote. Root gets fresh PID, mount, network, IPC and UTS
// namespaces and another user; without root a user namespace gives the same but for the other user.
struct SandboxAbilities {
  unsigned long namespaces = 0;  // CLONE_NEW* flags for clone3; 0: none
  bool drop_user = false;        // root: the candidate becomes an unprivileged user
  bool landlock = false;
  unsigned own_user = 0, own_group = 0;                      // the judge's
  unsigned first_user = 0, users = 0;                        // ids that candidates may get, where drop_user
  std::uint64_t candidate_memory = std::uint64_t{16} << 30;  // bytes that all processes of one may hold
  std::string text;                                          // "full", or what is missing
};
SandboxAbilities probe_sandbox(const std::string& python_executable);

// In PID 1 of the new namespaces: the user's own id in a user namespace, and the files. Throws std::system_error: a
// sandbox that cannot be built must not be entered.
void isolate(const SandboxSettings& settings, const SandboxAbilities& abilities);

// In the candidate, just before its code is loaded: limits, an unprivileged user, no capabilities, no new privileges,
// files confined, a system-call filter, stdin/stdout/stderr on /dev/null, every descriptor above 2 closed except
// `keep_fd`. Throws std::system_error.
void drop_privileges(const SandboxSettings& settings, const SandboxAbilities& abilities, int keep_fd);

}  // namespace anneal::evaluator
