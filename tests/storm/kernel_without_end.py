# task: mul; expect: timeout
# The Triton kernel itself never ends.
import torch
import triton
import triton.language as tl


@triton.jit
def spin(out_ptr, n):
    value = n
    while value > 0:
        value += tl.load(out_ptr).to(tl.int32) * 0
    tl.store(out_ptr, value.to(tl.float32))


def mul(input, other):
    out = torch.ones_like(input)
    spin[(1,)](out, 1)
    return out
