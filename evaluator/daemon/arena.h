// Memory that the judge and one candidate share: inputs go in, outputs come back. Never holds an expected value.
// On the CPU a sealed memfd; on a GPU cuMemCreate memory of its own, shared by POSIX file descriptor.
#pragma once

#include <cstddef>
#include <memory>

#include "evaluator/daemon/unique_fd.h"

namespace anneal::evaluator {

class Arena {
 public:
  // device: -1 for the CPU, else the CUDA ordinal. Throws std::runtime_error when there is no memory.
  static std::unique_ptr<Arena> create(int device, std::size_t bytes);
  // The other side's view of an arena, from the descriptor that came over the socket.
  static std::unique_ptr<Arena> open(int device, UniqueFd descriptor, std::size_t bytes);
  virtual ~Arena() = default;

  virtual std::byte* data() = 0;  // an address on the device
  std::size_t bytes() const { return bytes_; }
  int descriptor() const { return descriptor_.get(); }

  // Fills `size` bytes from `offset` with 0xFF, which is NaN in every float format: what is never written shows.
  virtual void poison(std::size_t offset, std::size_t size) = 0;

 protected:
  Arena(UniqueFd descriptor, std::size_t bytes) : descriptor_(std::move(descriptor)), bytes_(bytes) {}

 private:
  UniqueFd descriptor_;
  std::size_t bytes_;
};

}  // namespace anneal::evaluator
