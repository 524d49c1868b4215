// Only in builds with the address sanitizer: how it runs in a program that holds CPython and libtorch, which are built
// without it. In the program, not in the environment: the daemon gets a short list of variables.

extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "detect_leaks=0"                // CPython is never finalised
         ":detect_container_overflow=0"  // vectors that libtorch fills do not tell their ends
         ":handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0"  // verdicts tell by which signal a kernel
                                                                           // ended
         ":allocator_may_return_null=1";  // too large an allocation of a kernel's is its MemoryError
}
