// Moves what a timed call allocates to other places of the device's memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace anneal::evaluator {

// torch's allocator gives every call of a process the same block for its outputs and temporaries. What depends on where
// they lie would so differ between baseline and candidate by the same amount in every sample. Blocks of random number
// and size, held while a sample is taken, make it differ between samples instead, which averages out.
class HeldBlocks {
 public:
  // Gives back what is held and takes up to 31 blocks of 512 B to 512 KiB and up to 2 of 2 to 16 MiB on device
  // `device`. The same seed takes the same sizes. Holds nothing where memory is short.
  void renew(int device, std::uint64_t seed);

 private:
  std::vector<at::Tensor> blocks_;
};

}  // namespace anneal::evaluator
