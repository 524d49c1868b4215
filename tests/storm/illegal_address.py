# task: mul; expect: illegal_access
# Stores 4 TiB behind its output.
import torch
import triton
import triton.language as tl


@triton.jit
def far(out_ptr, distance):
    tl.store(out_ptr + distance, 1.0)


def mul(input, other):
    out = torch.empty_like(input)
    far[(1,)](out, 1 << 40)
    return out
