#include "evaluator/daemon/sandbox.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "evaluator/daemon/syscall_filter.h"
#include "evaluator/daemon/unique_fd.h"

namespace anneal::evaluator {

namespace {

constexpr unsigned long wanted_namespaces = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS;

#ifdef ANNEAL_ADDRESS_SANITIZER  // its shadow takes terabytes of address space, which no limit leaves room for
constexpr bool limits_address_space = false;
#else
constexpr bool limits_address_space = true;
#endif

[[noreturn]] void fail_with(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

bool world_can_reach(const std::filesystem::path& path) {
  struct stat facts{};
  for (std::filesystem::path at = path; !at.empty(); at = at.parent_path()) {
    if (::stat(at.c_str(), &facts) != 0 || (facts.st_mode & S_IXOTH) == 0) return false;
    if (at == at.root_path()) break;
  }
  return true;
}

void write_file(const char* path, const std::string& text) {
  const UniqueFd file(::open(path, O_WRONLY | O_CLOEXEC));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail_with(path);
}

// In a fresh user namespace: the process stays who it was.
void keep_own_user(unsigned user, unsigned group) {
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/uid_map", std::to_string(user) + " " + std::to_string(user) + " 1");
  write_file("/proc/self/gid_map", std::to_string(group) + " " + std::to_string(group) + " 1");
}

// Whether a child may be born into these namespaces and mount there: a fresh /proc above all, which needs the process
// to be in its own PID namespace and the machine's /proc to be whole.
bool namespaces_work(unsigned long flags) {
  const unsigned user = ::geteuid(), group = ::getegid();
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(static_cast<int>(flags)) != 0) ::_exit(1);
    try {
      if ((flags & CLONE_NEWUSER) != 0) keep_own_user(user, group);
    } catch (const std::exception&) {
      ::_exit(1);
    }
    const pid_t first = ::fork();
    if (first == 0) {
      if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(1);
      if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) ::_exit(1);
      if (::mount("tmpfs", "/tmp", "tmpfs", 0, "size=4k") != 0) ::_exit(1);
      mount_attr read_only{};
      read_only.attr_set = MOUNT_ATTR_RDONLY;
      ::_exit(::mount_setattr(AT_FDCWD, "/tmp", 0, &read_only, sizeof read_only) == 0 ? 0 : 1);
    }
    int status = 1;
    ::_exit(first > 0 && ::waitpid(first, &status, 0) == first && status == 0 ? 0 : 1);
  }
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

// Ids beyond those that distributions give out, where the namespace of this process has so many (a container may have
// 65,536 alone).
void choose_users(SandboxAbilities& abilities) {
  constexpr unsigned long far_first = 100'000'000, far_count = 100'000'000, near_first = 20'000, near_count = 40'000;
  std::ifstream map("/proc/self/uid_map");
  for (unsigned long inside, outside, count; map >> inside >> outside >> count;) {
    if (inside <= far_first && inside + count >= far_first + far_count) {
      abilities.first_user = far_first;
      abilities.users = far_count;
      return;
    }
    if (inside <= near_first && inside + count >= near_first + near_count) {
      abilities.first_user = near_first;
      abilities.users = near_count;
    }
  }
}

void set_limit(__rlimit_resource which, rlim_t value) {
  const rlimit limit{value, value};
  ::setrlimit(which, &limit);
}

void drop_capabilities() {
  for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);  // refused without the privilege, and then there is none to drop
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  if (::syscall(SYS_capset, &header, none) != 0) fail_with("drop capabilities");
}

}  // namespace

SandboxAbilities probe_sandbox(const std::string& python_executable) {
  SandboxAbilities abilities;
  abilities.own_user = ::geteuid();
  abilities.own_group = ::getegid();
  const bool root = abilities.own_user == 0;
  std::string missing;
  const auto lacks = [&](const char* what) { missing += (missing.empty() ? "" : ", ") + std::string(what); };
  const unsigned long wanted = wanted_namespaces | (root ? 0 : CLONE_NEWUSER);
  if (namespaces_work(wanted)) {
    abilities.namespaces = wanted;
  } else {
    lacks("namespaces");
  }
  std::error_code error;
  const auto resolved = std::filesystem::canonical(python_executable, error);
  abilities.drop_user = root && world_can_reach(std::filesystem::path(python_executable).parent_path()) && !error &&
                        world_can_reach(resolved.parent_path());
  if (abilities.drop_user) choose_users(abilities);
  abilities.drop_user = abilities.users > 0;
  if (!abilities.drop_user && (root || abilities.namespaces == 0)) lacks("another user");
  abilities.landlock = landlock_works();
  if (!abilities.landlock) lacks("Landlock");
  abilities.text = missing.empty() ? "full" : "without " + missing;
  return abilities;
}

void isolate(const SandboxSettings& settings, const SandboxAbilities& abilities) {
  if (abilities.namespaces == 0) return;
  if ((abilities.namespaces & CLONE_NEWUSER) != 0) keep_own_user(abilities.own_user, abilities.own_group);
  show_only(settings.files);
}

void drop_privileges(const SandboxSettings& settings, const SandboxAbilities& abilities, int keep_fd) {
  const int null = ::open("/dev/null", O_RDWR);
  if (null < 0) fail_with("/dev/null");
  for (int fd = 0; fd <= 2; ++fd) ::dup2(null, fd);
  if (keep_fd > 3 && ::close_range(3, static_cast<unsigned>(keep_fd) - 1, 0) != 0) fail_with("close descriptors");
  if (::close_range(static_cast<unsigned>(keep_fd) + 1, ~0u, 0) != 0) fail_with("close descriptors");

  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_FSIZE, rlim_t{1} << 30);
  set_limit(RLIMIT_NOFILE, 4096);
  // CUDA reserves address space far beyond any limit.
  if (limits_address_space && !settings.on_gpu) set_limit(RLIMIT_AS, rlim_t{16} << 30);
  if (const int score = ::open("/proc/self/oom_score_adj", O_WRONLY); score >= 0) {
    if (::write(score, "1000", 4) != 4) errno = 0;  // the out-of-memory killer takes the candidate, not the judge
    ::close(score);
  }
  if (::chdir(settings.files.scratch.c_str()) != 0) fail_with("chdir " + settings.files.scratch);
  // Counted by user, and in a user namespace apart from the user's other processes.
  if (abilities.drop_user || (abilities.namespaces & CLONE_NEWUSER) != 0) set_limit(RLIMIT_NPROC, 512);
  if (abilities.drop_user) {
    if (::setgroups(0, nullptr) != 0 || ::setresgid(settings.user, settings.user, settings.user) != 0 ||
        ::setresuid(settings.user, settings.user, settings.user) != 0) {
      fail_with("drop the user");
    }
  }
  drop_capabilities();
  // Only now: a change of user clears it.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail_with("no_new_privs");
  if (abilities.landlock) confine_files(settings.files);
  filter_system_calls(settings.on_gpu);
}

}  // namespace anneal::evaluator
