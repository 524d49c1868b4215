#include "evaluator/daemon/held_blocks.h"

#include <ATen/ops/empty.h>

#include <random>

namespace anneal::evaluator {

void HeldBlocks::renew(int device, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto options = at::TensorOptions().dtype(at::kByte).device(at::kCUDA, static_cast<at::DeviceIndex>(device));
  const auto hold = [&](std::uint64_t bytes) {
    blocks_.push_back(at::empty({static_cast<std::int64_t>(bytes)}, options));
  };
  blocks_.clear();
  // The allocator keeps blocks up to 1 MiB apart from larger ones.
  for (auto left = random() % 32; left > 0; --left) hold(std::uint64_t{512} << (random() % 11));
  for (auto left = random() % 3; left > 0; --left) hold((1 + random() % 8) << 21);
}

}  // namespace anneal::evaluator
