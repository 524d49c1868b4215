# task: mul; expect: ok
# Sets variables that CUDA, torch and Triton read: those that choose no other code may be set, and change nothing here.
import os

os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
os.environ["TRITON_PRINT_AUTOTUNING"] = "1"
os.environ["TRITON_INTERPRET"] = "1"
os.environ["TRITON_CACHE_DIR"] = "/no/such/folder"
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")

import torch
import triton
import triton.language as tl

BLOCK = 1024


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
        mul_kernel[(triton.cdiv(out.numel(), BLOCK),)](x, y, out, out.numel(), BLOCK=BLOCK)
    return out
