// The GPU side: shared device memory and the timer. Compiled from gpu.cu where nvcc is found; elsewhere gpu_absent.cpp
// says that it is not there. The tests' anneal-evald-simulated has gpu_simulated.cpp in its place. All functions throw
// std::runtime_error with CUDA's own text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace anneal::evaluator::gpu {

bool built_in();
// Whether it is gpu_simulated.cpp: tensors lie in host memory and the interpreter runs kernels.
bool simulated();
// Whether the memory of device `device` is the host's: -1 is the CPU.
inline bool in_host_memory(int device) { return device < 0 || simulated(); }

struct DeviceProperties {
  std::string name, uuid;  // uuid: hex
  std::size_t l2_bytes = 0;
  int driver_version = 0;          // CUDA's: 13000 for 13.0
  double peak_bytes_a_second = 0;  // of the memory, by its clock and bus width; 0 where the driver does not tell
};

// Initialises CUDA in this process: never call it before the zygote is forked.
DeviceProperties open_device(int device);

// Dedicated physical memory (cuMemCreate), so that nothing of anyone else lies in the same allocation.
struct SharedBlock {
  void* address = nullptr;
  std::size_t bytes = 0;  // as asked for; the mapping is rounded up to the allocation granularity
  std::size_t mapped_bytes = 0;
  unsigned long long handle = 0;
};
SharedBlock allocate_shared(int device, std::size_t bytes);
SharedBlock import_shared(int device, int descriptor, std::size_t bytes);
int export_descriptor(const SharedBlock& block);  // the caller owns it
void release(const SharedBlock& block) noexcept;
void fill(void* address, unsigned char value, std::size_t bytes);
void synchronise();
// Turns what lies there into noise, and back when done again with the same key: inputs that a candidate must not read
// before it is timed on them. `bytes` is a multiple of 8.
void scramble(void* address, std::size_t bytes, std::uint64_t key);

// Times one call on the current device with cold L2 (reference: docs/metrics.md, "Timing").
class Timer {
 public:
  // watched: streams (cudaStream_t) that the calls may work on beside the current one.
  static std::unique_ptr<Timer> create(int device, std::vector<std::uintptr_t> watched = {});
  virtual ~Timer() = default;

  struct Sample {
    // Between CUDA events around the call, launch gaps removed by a blocking kernel. The second event waits for the
    // watched streams too.
    double event_ns = 0;
    // How long the device worked on after the second event, for whomever; 0 up to 50 us, which is the host's jitter.
    double after_ns = 0;
    bool needs_sync = false;    // the call waited for the device, so that launch gaps are inside event_ns
    bool side_streams = false;  // the call worked on a watched stream, or after_ns is not 0
  };
  // Calls before a sample, so that code, allocator and clocks are as in a loop; no more once max_seconds have passed.
  virtual void warm(const std::function<void()>& call, int calls, double max_seconds) = 0;
  // Flushes L2, then times one call.
  virtual Sample measure(const std::function<void()>& call) = 0;
};

}  // namespace anneal::evaluator::gpu
