#include "evaluator/daemon/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include "evaluator/daemon/gpu.h"

namespace anneal::evaluator {

namespace {

[[noreturn]] void fail_with(const char* what) {
  throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

class HostArena : public Arena {
 public:
  HostArena(UniqueFd descriptor, std::size_t bytes) : Arena(std::move(descriptor), bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, Arena::descriptor(), 0);
    if (data_ == MAP_FAILED) fail_with("cannot map the arena");
  }
  ~HostArena() override { ::munmap(data_, bytes()); }
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  std::byte* data() override { return static_cast<std::byte*>(data_); }
  void poison(std::size_t offset, std::size_t size) override {
    std::memset(static_cast<std::byte*>(data_) + offset, 0xff, size);
  }

 private:
  void* data_ = nullptr;
};

UniqueFd sealed_memory(std::size_t bytes) {
  UniqueFd fd(::memfd_create("anneal-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) fail_with("memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) fail_with("cannot size the arena");
  // A candidate that shrank it would make the judge fault.
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    fail_with("cannot seal the arena");
  return fd;
}

class DeviceArena : public Arena {
 public:
  DeviceArena(gpu::SharedBlock block, UniqueFd descriptor) : Arena(std::move(descriptor), block.bytes), block_(block) {}
  ~DeviceArena() override { gpu::release(block_); }
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;

  std::byte* data() override { return static_cast<std::byte*>(block_.address); }
  void poison(std::size_t offset, std::size_t size) override {
    gpu::fill(static_cast<std::byte*>(block_.address) + offset, 0xff, size);
  }

 private:
  gpu::SharedBlock block_;
};

}  // namespace

std::unique_ptr<Arena> Arena::create(int device, std::size_t bytes) {
  if (gpu::in_host_memory(device)) return std::make_unique<HostArena>(sealed_memory(bytes), bytes);
  gpu::SharedBlock block = gpu::allocate_shared(device, bytes);
  UniqueFd descriptor(gpu::export_descriptor(block));
  return std::make_unique<DeviceArena>(block, std::move(descriptor));
}

std::unique_ptr<Arena> Arena::open(int device, UniqueFd descriptor, std::size_t bytes) {
  if (gpu::in_host_memory(device)) return std::make_unique<HostArena>(std::move(descriptor), bytes);
  gpu::SharedBlock block = gpu::import_shared(device, descriptor.get(), bytes);
  return std::make_unique<DeviceArena>(block, std::move(descriptor));
}

}  // namespace anneal::evaluator
