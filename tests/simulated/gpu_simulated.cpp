// A GPU for machines without one, so that all of timing runs there but CUDA: tensors lie in host memory, Triton's
// interpreter runs the kernels, and the clock goes on by 1 us for each of torch's operators that a call makes, so that
// times are the same on every machine. What it measures says nothing of any kernel.
#include <ATen/record_function.h>

#include <chrono>
#include <cstring>
#include <random>
#include <stdexcept>

#include "evaluator/daemon/gpu.h"

namespace anneal::evaluator::gpu {
namespace {

constexpr double call_ns = 20, operator_ns = 1000;
thread_local int operators = 0, depth = 0;  // an operator that is watched is called again within itself

std::unique_ptr<at::ObserverContext> enter_operator(const at::RecordFunction&) {
  if (depth++ == 0) ++operators;
  return nullptr;
}

void leave_operator(const at::RecordFunction&, at::ObserverContext*) { --depth; }

[[noreturn]] void unused(const char* what) {
  throw std::logic_error(std::string(what) + ": a simulated device's memory is the host's");
}

// Counts this thread's operators while it lives.
class Counting {
 public:
  Counting() {
    operators = depth = 0;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(&enter_operator, &leave_operator).scopes({at::RecordScope::FUNCTION}));
  }
  ~Counting() { at::removeCallback(handle_); }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

 private:
  at::CallbackHandle handle_;
};

class SimulatedTimer : public Timer {
 public:
  void warm(const std::function<void()>& call, int calls, double max_seconds) override {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) {
      call();
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > max_seconds) return;
    }
  }

  Sample measure(const std::function<void()>& call) override {
    const Counting counting;
    call();
    Sample sample;
    sample.event_ns = call_ns + operator_ns * operators;
    return sample;
  }
};

}  // namespace

bool built_in() { return true; }
bool simulated() { return true; }

DeviceProperties open_device(int) {
  DeviceProperties properties;
  properties.name = "simulated";
  properties.uuid = "simulated";
  properties.l2_bytes = 1 << 16;
  properties.peak_bytes_a_second = 4.8e12;
  return properties;
}

SharedBlock allocate_shared(int, std::size_t) { unused("allocate_shared"); }
SharedBlock import_shared(int, int, std::size_t) { unused("import_shared"); }
int export_descriptor(const SharedBlock&) { unused("export_descriptor"); }
void release(const SharedBlock&) noexcept {}
void fill(void* address, unsigned char value, std::size_t bytes) { std::memset(address, value, bytes); }
void synchronise() {}

void scramble(void* address, std::size_t bytes, std::uint64_t key) {
  std::mt19937_64 noise(key);
  auto* at = static_cast<std::byte*>(address);
  for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at + i, 8);
    word ^= noise();
    std::memcpy(at + i, &word, 8);
  }
}

std::unique_ptr<Timer> Timer::create(int, std::vector<std::uintptr_t>) { return std::make_unique<SimulatedTimer>(); }

}  // namespace anneal::evaluator::gpu
