#include "evaluator/daemon/syscall_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <vector>

namespace anneal::evaluator {

namespace {

constexpr std::array refused = {SYS_ptrace,
                                SYS_process_vm_readv,
                                SYS_process_vm_writev,
                                SYS_process_madvise,
                                SYS_kcmp,
                                SYS_mount,
                                SYS_umount2,
                                SYS_pivot_root,
                                SYS_move_mount,
                                SYS_open_tree,
                                SYS_fsopen,
                                SYS_fsmount,
                                SYS_mount_setattr,
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

// Memory that lies in no process, so that nothing counts it.
constexpr std::array memory_calls = {SYS_memfd_create, SYS_memfd_secret, SYS_shmget};

// Numbers from here on are the x32 form of the same calls.
constexpr std::uint32_t x32_bit = 0x40000000;

sock_filter load(std::size_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(offset)); }
sock_filter give(std::uint32_t what) { return BPF_STMT(BPF_RET | BPF_K, what); }
sock_filter skip(std::uint16_t test, std::uint32_t value, std::uint8_t when_true, std::uint8_t when_false) {
  return BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | test | BPF_K), value, when_true, when_false);
}

}  // namespace

void filter_system_calls(bool memory_files) {
  constexpr std::size_t first_argument = offsetof(seccomp_data, args);  // its lower half: little-endian
  constexpr std::uint32_t denied = SECCOMP_RET_ERRNO | EPERM, absent = SECCOMP_RET_ERRNO | ENOSYS;
  std::vector<sock_filter> program = {load(offsetof(seccomp_data, arch)), skip(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0),
                                      give(SECCOMP_RET_KILL_PROCESS),     load(offsetof(seccomp_data, nr)),
                                      skip(BPF_JGE, x32_bit, 0, 1),       give(SECCOMP_RET_KILL_PROCESS)};
  for (const long call : refused) {
    program.push_back(skip(BPF_JEQ, static_cast<std::uint32_t>(call), 0, 1));
    program.push_back(give(denied));
  }
  if (!memory_files) {
    for (const long call : memory_calls) {
      program.push_back(skip(BPF_JEQ, static_cast<std::uint32_t>(call), 0, 1));
      program.push_back(give(denied));
    }
  }
  // A session is a scheduling group of its own: one that made many would take the others' share of the cores. It is
  // told that it has one.
  program.push_back(skip(BPF_JEQ, SYS_setsid, 0, 1));
  program.push_back(give(SECCOMP_RET_ERRNO));
  // clone3's flags lie in memory, which a filter cannot read; libc falls back to clone when it is absent.
  program.push_back(skip(BPF_JEQ, SYS_clone3, 0, 1));
  program.push_back(give(absent));
  constexpr std::uint32_t new_namespaces =
      CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
  // Once an argument is loaded the number is gone: both of these end in a decision (5: to the last line).
  program.insert(program.end(), {skip(BPF_JEQ, SYS_clone, 0, 3), load(first_argument),
                                 skip(BPF_JSET, new_namespaces, 0, 5), give(denied)});
  program.insert(program.end(),
                 {skip(BPF_JEQ, SYS_socket, 0, 3), load(first_argument), skip(BPF_JEQ, AF_UNIX, 1, 0), give(denied)});
  program.push_back(give(SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    throw std::system_error(errno, std::generic_category(), "seccomp");
  }
}

}  // namespace anneal::evaluator
