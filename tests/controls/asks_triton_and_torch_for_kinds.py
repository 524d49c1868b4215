# task: mul; expect: ok
# Asks whether a function is a kernel, makes pairs as torch.nn does, checks its arguments, and holds numbers in an array.
import math

import numpy as np
import torch
import triton
import triton.language as tl
from torch.nn.modules.utils import _pair
from triton.runtime import JITFunction

SIZES = np.array([256, 512, 1024], dtype=np.int64)
BLOCK = int(SIZES[_pair(2)[0]])
assert BLOCK == int(np.sqrt(1024) * math.sqrt(1024))


def launch(kernel: JITFunction, blocks, *arguments):
    assert isinstance(kernel, (JITFunction, triton.runtime.Autotuner)), "a kernel is needed"
    torch._check(blocks > 0, lambda: "nothing to do")
    kernel[(blocks,)](*arguments, BLOCK=BLOCK)


@triton.jit
def mul_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * tl.load(y_ptr + offsets, mask=mask), mask=mask)


def mul(input, other):
    if not isinstance(other, torch.Tensor):
        other = torch.full((1,), float(other), dtype=input.dtype, device=input.device)
    x, y = torch.broadcast_tensors(input, other)
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    if out.numel() > 0:
        launch(mul_kernel, triton.cdiv(out.numel(), BLOCK), x, y, out, out.numel())
    return out
