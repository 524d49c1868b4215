// What stands between a candidate and everything else. Entered in the candidate's own processes, after the fork.
#pragma once

#include <string>
#include <vector>

namespace anneal::evaluator {

struct SandboxSettings {
  std::vector<std::string> hidden_folders;  // covered by an empty tmpfs: task files, experiment files
  std::string scratch;                      // the only folder that the candidate may write; its cache and its home
  bool on_gpu = false;
  unsigned user = 65534;  // of this candidate alone: the limit on processes counts by user
};

// What this machine allows; tried once at start by the zygote.
struct SandboxAbilities {
  unsigned long namespaces = 0;  // CLONE_NEW* flags for clone3; 0: none
  bool drop_user = false;        // root: the candidate becomes an unprivileged user
  std::string text;              // "full", or what is missing
};
SandboxAbilities probe_sandbox(const std::string& python_executable);

// In PID 1 of the new namespaces: private mounts, a fresh /proc, the hidden folders covered. Throws
// std::system_error: a sandbox that cannot be built must not be entered.
void isolate_mounts(const SandboxSettings& settings, const SandboxAbilities& abilities);

// In the candidate, just before its code is loaded: limits, an unprivileged user, no new privileges, a system-call
// filter, stdin/stdout/stderr on /dev/null, every descriptor above 2 closed except `keep_fd`.
void drop_privileges(const SandboxSettings& settings, const SandboxAbilities& abilities, int keep_fd);

}  // namespace anneal::evaluator
