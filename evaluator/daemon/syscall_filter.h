// The system calls that a candidate may not make (seccomp). Needs no privilege beyond no_new_privs.
#pragma once

namespace anneal::evaluator {

// From here on, in this process and all it starts: calls that reach other processes, the kernel, mounts, new namespaces
// or networks, and those that make memory which no process shows, fail with EPERM; setsid does nothing; calls of
// another architecture or of the x32 form end the process. Throws std::system_error.
// memory_files: memfd_create and shmget are left alone, for a GPU driver that may need them.
void filter_system_calls(bool memory_files = false);

}  // namespace anneal::evaluator
