#include "evaluator/daemon/zygote.h"

#include <Python.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <stdexcept>

#include "evaluator/daemon/candidate.h"
#include "evaluator/daemon/tree_watch.h"

namespace anneal::evaluator {

namespace {

using nlohmann::json;

json sandbox_to_json(const SandboxSettings& settings) {
  return {{"visible", settings.files.visible},
          {"hidden", settings.files.hidden},
          {"scratch", settings.files.scratch},
          {"gpu", settings.on_gpu},
          {"user", settings.user}};
}

SandboxSettings sandbox_from_json(const json& object) {
  const auto folders = [&](const char* key) { return object.at(key).get<std::vector<std::string>>(); };
  return {{folders("visible"), folders("hidden"), object.at("scratch").get<std::string>()},
          object.at("gpu").get<bool>(),
          object.at("user").get<unsigned>()};
}

// Ends every process below this one, those that left their parents too: the init is their reaper.
void end_descendants() {
  const std::string children = "/proc/self/task/" + std::to_string(::gettid()) + "/children";
  for (;;) {
    std::ifstream list(children);
    for (pid_t pid; list >> pid;) ::kill(pid, SIGKILL);
    pid_t ended;
    while ((ended = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (ended < 0 && errno == ECHILD) return;
    ::usleep(1000);
  }
}

// The signal that ends an init. As PID 1 of a namespace it takes all with it when it is killed; without one it must be
// asked, so that it can end what the candidate started.
int ending_signal(const SandboxAbilities& abilities) {
  return (abilities.namespaces & CLONE_NEWPID) != 0 ? SIGKILL : SIGTERM;
}

// The parent of the candidate, PID 1 where there are namespaces: builds the mounts, forks the candidate, and ends as it
// ended. (Python as PID 1 would ignore signals that it has no handler for, and leave zombies.)
[[noreturn]] void run_init(const CandidateSettings& settings, const SandboxAbilities& abilities, int candidate_socket) {
  sigset_t awaited, before;
  ::sigemptyset(&awaited);
  ::sigaddset(&awaited, SIGCHLD);
  ::sigaddset(&awaited, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &awaited, &before);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, ending_signal(abilities));
  ::setsid();
  try {
    isolate(settings.sandbox, abilities);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "anneal-evald: sandbox: %s\n", error.what());
    ::_exit(sandbox_failed_status);
  }
  // Whether the candidate's sandbox stood, so that its own exit codes are not taken for ours. It unmaps its side.
  void* page = ::mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) ::_exit(sandbox_failed_status);
  auto* entered = new (page) std::atomic<bool>(false);
  PyOS_BeforeFork();
  const pid_t candidate = ::fork();
  if (candidate == 0) {
    PyOS_AfterFork_Child();
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    enter_sandbox(settings, abilities, candidate_socket);
    entered->store(true);
    ::munmap(page, sizeof(std::atomic<bool>));
    run_candidate(settings, candidate_socket);
  }
  if (::close_range(3, ~0u, 0) != 0)
    ::_exit(sandbox_failed_status);     // the candidate's socket above all: its end must show as a closed channel
  ::setpriority(PRIO_PROCESS, 0, -10);  // to be heard among hundreds of busy processes; refused without root
  const bool bounded = (abilities.namespaces & CLONE_NEWNS) != 0;
  // What its pages hold of ours is no memory of its own.
  const std::uint64_t inherited = memory_of({::getpid()}, ~std::uint64_t{0});
  TreeWatch watch(abilities.candidate_memory, bounded ? "" : settings.sandbox.files.scratch, scratch_bytes);
  for (;;) {
    constexpr timespec between_looks{0, 50'000'000};
    const int signal = ::sigtimedwait(&awaited, nullptr, &between_looks);
    if (const std::optional<int> status = watch.exceeded()) {
      end_descendants();
      ::_exit(*status);
    }
    if (signal == SIGTERM) {
      end_descendants();
      ::_exit(128 + SIGKILL);
    }
    int status = 0;
    rusage usage{};
    for (pid_t ended; (ended = ::wait4(-1, &status, WNOHANG, &usage)) > 0;) {
      if (ended != candidate) continue;
      int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      if (entered->load() && code >= sandbox_failed_status && code <= machine_short_status) code = 1;
      // The kernel may have been quicker than the watch.
      const std::uint64_t most = static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
      if (code == 128 + SIGKILL && most > inherited + abilities.candidate_memory) code = memory_exceeded_status;
      end_descendants();
      ::_exit(code);
    }
  }
}

void serve_spawn(Channel& judge, const json& request, std::vector<UniqueFd>& descriptors,
                 const SandboxAbilities& abilities) {
  CandidateSettings settings;
  settings.device = request.at("device").get<int>();
  settings.capability = request.at("capability").get<int>();
  settings.sandbox = sandbox_from_json(request.at("sandbox"));
  const int socket = descriptors.at(0).get();

  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = CLONE_PIDFD | abilities.namespaces;
  arguments.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  arguments.exit_signal = SIGCHLD;
  std::fflush(nullptr);
  PyOS_BeforeFork();
  const long pid = ::syscall(SYS_clone3, &arguments, sizeof arguments);
  if (pid == 0) {
    PyOS_AfterFork_Child();
    // Nothing thrown here may reach the frames below, which are the judge's: they would go on as if this were it.
    try {
      run_init(settings, abilities, socket);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "anneal-evald: the parent of a kernel's process: %s\n", error.what());
    }
    ::_exit(sandbox_failed_status);
  }
  PyOS_AfterFork_Parent();
  if (pid < 0) {
    judge.send({{"error", std::string("clone3: ") + std::strerror(errno)}}, no_deadline);
    return;
  }
  const UniqueFd owned(pidfd);
  judge.send({{"pid", pid}}, no_deadline, {owned.get()});
}

void serve_reap(Channel& judge, const json& request) {
  int status = 0;
  const pid_t pid = request.at("pid").get<pid_t>();
  pid_t ended;
  do {
    ended = ::waitpid(pid, &status, WNOHANG);
  } while (ended < 0 && errno == EINTR);
  if (ended != pid) {
    judge.send({{"alive", true}}, no_deadline);
    return;
  }
  judge.send({{"status", WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status)}}, no_deadline);
}

[[noreturn]] void run_zygote(Channel judge, const SandboxAbilities& abilities) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGINT, SIG_IGN);  // Ctrl-C is the orchestrator's to handle
  for (;;) {
    json request;
    std::vector<UniqueFd> descriptors;
    const auto status = judge.receive(request, no_deadline, &descriptors);
    if (status != Channel::Status::ok) ::_exit(0);  // the judge is gone
    if (request.at("op") == "spawn") {
      serve_spawn(judge, request, descriptors, abilities);
    } else {
      serve_reap(judge, request);
    }
  }
}

std::size_t thread_count() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

}  // namespace

Channel fork_zygote(const SandboxAbilities& abilities) {
  if (thread_count() != 1) {
    throw std::logic_error("the zygote must be forked from a process with one thread; there are " +
                           std::to_string(thread_count()));
  }
  auto [judge_end, zygote_end] = Channel::pair();
  std::fflush(nullptr);
  PyOS_BeforeFork();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  if (pid == 0) {
    PyOS_AfterFork_Child();
    judge_end = Channel();
    ::close(3);  // the orchestrator's socket
    try {
      run_zygote(std::move(zygote_end), abilities);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "anneal-evald: the zygote: %s\n", error.what());
    }
    ::_exit(1);
  }
  PyOS_AfterFork_Parent();
  return std::move(judge_end);
}

json ZygoteClient::ask(const json& request, const std::vector<int>& descriptors, std::vector<UniqueFd>* received) {
  const std::lock_guard lock(mutex_);
  json reply;
  const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  if (out_of_step_ || channel_.send(request, deadline, descriptors) != Channel::Status::ok ||
      channel_.receive(reply, deadline, received) != Channel::Status::ok) {
    out_of_step_ = true;
    if (lost_) lost_();
    throw std::runtime_error("the zygote does not answer");
  }
  if (reply.contains("error")) throw std::runtime_error(reply["error"].get<std::string>());
  return reply;
}

Spawned ZygoteClient::spawn(const CandidateSettings& settings) {
  auto [mine, theirs] = Channel::pair();
  std::vector<UniqueFd> received;
  const json reply = ask({{"op", "spawn"},
                          {"device", settings.device},
                          {"capability", settings.capability},
                          {"sandbox", sandbox_to_json(settings.sandbox)}},
                         {theirs.fd()}, &received);
  Spawned spawned;
  spawned.pid = reply.at("pid").get<int>();
  spawned.init = std::move(received.at(0));
  spawned.channel = std::move(mine);
  return spawned;
}

std::optional<int> ZygoteClient::kill_and_reap(Spawned& spawned) {
  ::syscall(SYS_pidfd_send_signal, spawned.init.get(), ending_signal(abilities_), nullptr, 0);
  pollfd ended{spawned.init.get(), POLLIN, 0};
  int count;
  do {
    count = ::poll(&ended, 1, static_cast<int>(patience_.count()));
  } while (count < 0 && errno == EINTR);
  if (count <= 0) {
    stuck_ = true;
    return std::nullopt;
  }
  const json reply = ask({{"op", "reap"}, {"pid", spawned.pid}}, {}, nullptr);
  if (!reply.contains("status")) {
    stuck_ = true;
    return std::nullopt;
  }
  return reply.at("status").get<int>();
}

}  // namespace anneal::evaluator
