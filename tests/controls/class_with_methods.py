# task: mul; expect: ok
# Kernels behind a class, a dataclass of options, functools and math.
import functools
import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl


@triton.jit
def mul_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * tl.load(y_ptr + offsets, mask=mask), mask=mask)


def multiply(input, other):
    if not isinstance(other, torch.Tensor):
        other = torch.full((1,), float(other), dtype=input.dtype, device=input.device)
    x, y = torch.broadcast_tensors(input, other)
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    if out.numel() == 0:
        return out
    mul_kernel[(triton.cdiv(out.numel(), 1024),)](x, y, out, out.numel(), BLOCK=1024)
    return out


@dataclass(frozen=True)
class Options:
    block: int = int(math.pow(2, 10))
    warps: int = 4


class Multiplier:
    def __init__(self, options):
        self.options = options

    def __call__(self, input, other):
        return multiply(input, other)


@functools.lru_cache(maxsize=None)
def multiplier():
    return Multiplier(Options())


def mul(input, other):
    return multiplier()(input, other)
