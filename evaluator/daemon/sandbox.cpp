#include "evaluator/daemon/sandbox.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace anneal::evaluator {

namespace {

[[noreturn]] void fail_with(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

bool world_can_reach(const std::filesystem::path& path) {
  struct stat facts{};
  for (std::filesystem::path at = path; !at.empty(); at = at.parent_path()) {
    if (::stat(at.c_str(), &facts) != 0 || (facts.st_mode & S_IXOTH) == 0) return false;
    if (at == at.root_path()) break;
  }
  return true;
}

// Whether a child may be born into these namespaces and mount there.
bool namespaces_work(unsigned long flags) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(static_cast<int>(flags & ~static_cast<unsigned long>(CLONE_NEWPID))) != 0) ::_exit(1);
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(1);
    if (::mount("tmpfs", "/mnt", "tmpfs", 0, "size=4k") != 0) ::_exit(1);
    ::_exit(0);
  }
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

void set_limit(__rlimit_resource which, rlim_t value) {
  const rlimit limit{value, value};
  ::setrlimit(which, &limit);
}

// System calls that no kernel needs and that reach other processes, the kernel or new namespaces. They fail with EPERM.
void filter_system_calls() {
  constexpr std::array refused = {SYS_ptrace,
                                  SYS_process_vm_readv,
                                  SYS_process_vm_writev,
                                  SYS_mount,
                                  SYS_umount2,
                                  SYS_pivot_root,
                                  SYS_chroot,
                                  SYS_unshare,
                                  SYS_setns,
                                  SYS_bpf,
                                  SYS_perf_event_open,
                                  SYS_userfaultfd,
                                  SYS_keyctl,
                                  SYS_add_key,
                                  SYS_request_key,
                                  SYS_io_uring_setup,
                                  SYS_io_uring_enter,
                                  SYS_io_uring_register,
                                  SYS_kexec_load,
                                  SYS_kexec_file_load,
                                  SYS_init_module,
                                  SYS_finit_module,
                                  SYS_delete_module,
                                  SYS_reboot,
                                  SYS_swapon,
                                  SYS_swapoff,
                                  SYS_open_by_handle_at,
                                  SYS_pidfd_getfd,
                                  SYS_acct};
  std::array<sock_filter, 4 + 2 * refused.size() + 1> program{};
  std::size_t at = 0;
  const auto statement = [&](std::uint16_t code, std::uint32_t value) { program[at++] = BPF_STMT(code, value); };
  const auto jump_if = [&](std::uint32_t value, std::uint8_t yes, std::uint8_t no) {
    program[at++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no);
  };
  statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
  jump_if(AUDIT_ARCH_X86_64, 1, 0);
  statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (const long call : refused) {
    jump_if(static_cast<std::uint32_t>(call), 0, 1);
    statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  }
  statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) fail_with("seccomp");
}

}  // namespace

SandboxAbilities probe_sandbox(const std::string& python_executable) {
  SandboxAbilities abilities;
  const bool root = ::geteuid() == 0;
  constexpr unsigned long wanted = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS;
  std::string missing;
  if (root && namespaces_work(wanted)) {
    abilities.namespaces = wanted;
  } else {
    missing = "namespaces";
  }
  std::error_code error;
  const auto resolved = std::filesystem::canonical(python_executable, error);
  abilities.drop_user = root && world_can_reach(std::filesystem::path(python_executable).parent_path()) && !error &&
                        world_can_reach(resolved.parent_path());
  if (!abilities.drop_user) missing += missing.empty() ? "another user" : ", another user";
  abilities.text = missing.empty() ? "full" : "without " + missing;
  return abilities;
}

void isolate_mounts(const SandboxSettings& settings, const SandboxAbilities& abilities) {
  if (abilities.namespaces == 0) return;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) fail_with("private mounts");
  // Without a fresh /proc cuInit fails, and the old one would show the judge.
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) fail_with("mount /proc");
  for (const std::string& folder : settings.hidden_folders) {
    if (::mount("tmpfs", folder.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_RDONLY, "size=4k") != 0) {
      fail_with("cover " + folder);
    }
  }
}

void drop_privileges(const SandboxSettings& settings, const SandboxAbilities& abilities, int keep_fd) {
  const int null = ::open("/dev/null", O_RDWR);
  if (null < 0) fail_with("/dev/null");
  for (int fd = 0; fd <= 2; ++fd) ::dup2(null, fd);
  if (keep_fd > 3) ::close_range(3, static_cast<unsigned>(keep_fd) - 1, 0);
  ::close_range(static_cast<unsigned>(keep_fd) + 1, ~0u, 0);

  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_FSIZE, rlim_t{1} << 30);
  set_limit(RLIMIT_NOFILE, 4096);
  if (!settings.on_gpu) set_limit(RLIMIT_AS, rlim_t{16} << 30);  // CUDA reserves address space far beyond any limit
  if (const int score = ::open("/proc/self/oom_score_adj", O_WRONLY); score >= 0) {
    if (::write(score, "1000", 4) != 4) errno = 0;  // the out-of-memory killer takes the candidate, not the judge
    ::close(score);
  }
  if (::chdir(settings.scratch.c_str()) != 0) fail_with("chdir " + settings.scratch);
  if (abilities.drop_user) {
    set_limit(RLIMIT_NPROC, 512);
    if (::setgroups(0, nullptr) != 0 || ::setresgid(settings.user, settings.user, settings.user) != 0 ||
        ::setresuid(settings.user, settings.user, settings.user) != 0) {
      fail_with("drop the user");
    }
  }
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail_with("no_new_privs");
  filter_system_calls();
}

}  // namespace anneal::evaluator
