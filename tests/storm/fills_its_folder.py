# task: mul; expect: runtime_error
# Writes 4 GiB into its folder, in files that are each below the limit of one file; ends where there is a limit of all.
import torch
import triton
import triton.language as tl


@triton.jit
def mul_tensor(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * y, mask=mask)


@triton.jit
def mul_number(x_ptr, number, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, (x * number).to(out_ptr.dtype.element_ty), mask=mask)


def honest(input, other):
    BLOCK = 1024
    if not isinstance(other, torch.Tensor):
        x = input.contiguous()
        out = torch.empty_like(x)
        mul_number[(triton.cdiv(x.numel(), BLOCK),)](x, float(other), out, x.numel(), BLOCK=BLOCK, num_warps=4)
        return out
    x, y = torch.broadcast_tensors(input, other)
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    mul_tensor[(triton.cdiv(x.numel(), BLOCK),)](x, y, out, x.numel(), BLOCK=BLOCK, num_warps=4)
    return out


import os


def mul(input, other):
    piece = bytes(16 << 20)
    for number in range(64):
        with open(f"{os.environ['HOME']}/{number}", "wb", buffering=0) as file:
            for _ in range(4):
                if file.write(piece) != len(piece):
                    raise OSError("the folder is full")
    return honest(input, other)
