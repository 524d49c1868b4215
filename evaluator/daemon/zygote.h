// The zygote: a process with Python, torch and triton imported, one thread and no CUDA, from which every candidate is
// forked in milliseconds. The judge talks to it through ZygoteClient.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "evaluator/daemon/channel.h"
#include "evaluator/daemon/sandbox.h"

namespace anneal::evaluator {

struct CandidateSettings {
  int device = -1;      // -1: CPU
  int capability = 90;  // CPU: the target that kernels are compiled for
  SandboxSettings sandbox;
};

// A live candidate as the judge holds it. `init` is PID 1 of the candidate's namespace: killing it kills all of it.
struct Spawned {
  int pid = 0;      // of the init, in the judge's namespace
  UniqueFd init;    // pidfd
  Channel channel;  // to the candidate
};

class ZygoteClient {
 public:
  // patience: how long a candidate may take to die. Tearing down hundreds of forked processes takes tens of seconds on
  // a busy machine.
  ZygoteClient(Channel channel, SandboxAbilities abilities,
               std::chrono::milliseconds patience = std::chrono::minutes(1))
      : channel_(std::move(channel)), abilities_(std::move(abilities)), patience_(patience) {}

  // Called, perhaps by several threads, when the zygote is gone or does not answer: no candidate can be started or
  // ended any more, so the process had better leave and be started again. Set before the first spawn().
  void on_loss(std::function<void()> lost) { lost_ = std::move(lost); }

  // Throws std::runtime_error when the zygote is lost or could not fork. Thread-safe.
  Spawned spawn(const CandidateSettings& settings);

  // Ends the whole candidate, and says its exit status: the code, or 128 + the signal that ended it; nullopt when it
  // would not die within a minute (a process stuck in the driver), which must end the use of that device: stuck() says
  // so from then on.
  std::optional<int> kill_and_reap(Spawned& spawned);
  bool stuck() const { return stuck_; }

  // Ends the zygote, and with it, by PDEATHSIG, every candidate. Nothing can be asked any more.
  void end() { ::shutdown(channel_.fd(), SHUT_RDWR); }

  const SandboxAbilities& abilities() const { return abilities_; }

 private:
  nlohmann::json ask(const nlohmann::json& request, const std::vector<int>& descriptors,
                     std::vector<UniqueFd>* received);

  std::mutex mutex_;
  Channel channel_;
  SandboxAbilities abilities_;
  std::chrono::milliseconds patience_;
  std::atomic<bool> stuck_{false};
  bool out_of_step_ = false;  // a late answer would be taken for the next question's; guarded by mutex_
  std::function<void()> lost_;
};

// Forks the zygote from this process (which must have one thread and no CUDA; throws std::logic_error otherwise) and
// returns the judge's end.
Channel fork_zygote(const SandboxAbilities& abilities);

}  // namespace anneal::evaluator
