# task: mul; expect: ok
# Typed, documented, with a logger and a guard against wrong arguments.
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


import logging
from typing import Union

logger = logging.getLogger(__name__)


def mul(input: torch.Tensor, other: Union[torch.Tensor, float]) -> torch.Tensor:
    """The product, element by element."""
    if not isinstance(input, torch.Tensor):
        raise TypeError("input must be a tensor")
    logger.debug("shape %s", tuple(input.shape))
    return multiply(input, other)
