#include <stdexcept>

#include "evaluator/daemon/gpu.h"

namespace anneal::evaluator::gpu {

namespace {
[[noreturn]] void absent() {
  throw std::runtime_error(
      "this anneal-evald was built without the CUDA toolkit; install it and run tools/build again");
}
}  // namespace

bool built_in() { return false; }
bool simulated() { return false; }
DeviceProperties open_device(int) { absent(); }
SharedBlock allocate_shared(int, std::size_t) { absent(); }
SharedBlock import_shared(int, int, std::size_t) { absent(); }
int export_descriptor(const SharedBlock&) { absent(); }
void release(const SharedBlock&) noexcept {}
void fill(void*, unsigned char, std::size_t) { absent(); }
void synchronise() { absent(); }
void scramble(void*, std::size_t, std::uint64_t) { absent(); }
std::unique_ptr<Timer> Timer::create(int, std::vector<std::uintptr_t>) { absent(); }

}  // namespace anneal::evaluator::gpu
