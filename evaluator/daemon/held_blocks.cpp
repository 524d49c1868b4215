#include "evaluator/daemon/held_blocks.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <random>

#include "evaluator/daemon/tensors.h"

namespace anneal::evaluator {

void HeldBlocks::renew(int device, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto options = at::TensorOptions().dtype(at::kByte).device(torch_device(device));
  const auto hold = [&](std::uint64_t bytes) {
    blocks_.push_back(at::empty({static_cast<std::int64_t>(bytes)}, options));
  };
  blocks_.clear();
  try {
    // The allocator keeps blocks up to 1 MiB apart from larger ones.
    for (auto left = random() % 32; left > 0; --left) hold(std::uint64_t{512} << (random() % 11));
    for (auto left = random() % 3; left > 0; --left) hold((1 + random() % 8) << 21);
  } catch (const c10::OutOfMemoryError&) {
    blocks_.clear();  // the call may need what is left
  }
}

}  // namespace anneal::evaluator
