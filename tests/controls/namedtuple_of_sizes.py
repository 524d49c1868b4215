# task: mul; expect: ok
# Sizes go to the kernel as one named tuple of constants, pointers as another one.
import collections
from typing import NamedTuple

import torch
import triton
import triton.language as tl


class Sizes(NamedTuple):
    block: int
    again: int = 1


Pointers = collections.namedtuple("Pointers", ["x", "y", "out"])


@triton.jit
def mul_kernel(pointers, n, sizes: tl.constexpr):
    for i in range(sizes.again):
        offsets = (tl.program_id(0) * sizes.again + i) * sizes.block + tl.arange(0, sizes.block)
        mask = offsets < n
        tl.store(pointers.out + offsets, tl.load(pointers.x + offsets, mask=mask) * tl.load(pointers.y + offsets, mask=mask), mask=mask)


def mul(input, other):
    if not isinstance(other, torch.Tensor):
        other = torch.full((1,), float(other), dtype=input.dtype, device=input.device)
    x, y = torch.broadcast_tensors(input, other)
    pointers = Pointers(x.contiguous(), y.contiguous(), torch.empty(x.shape, dtype=x.dtype, device=x.device))
    sizes = Sizes(512, 2)
    mul_kernel[(triton.cdiv(x.numel(), sizes.block * sizes.again),)](pointers, x.numel(), sizes)
    return pointers.out
