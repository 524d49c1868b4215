# task: mul; expect: ok
# Five hundred launches with a new temporary each: as a network's time steps have.
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


def mul(input, other):
    BLOCK = 1024
    if not isinstance(other, torch.Tensor):
        x = input.contiguous()
        out = torch.empty_like(x)
        mul_number[(triton.cdiv(x.numel(), BLOCK),)](x, float(other), out, x.numel(), BLOCK=BLOCK, num_warps=4)
        return out
    x, y = torch.broadcast_tensors(input, other)
    x, y = x.contiguous(), y.contiguous()
    for _ in range(500 if x.numel() < 2048 else 0):
        step = torch.empty_like(x)
        mul_number[(1,)](x, 1.0, step, 0, BLOCK=16)
    out = torch.empty_like(x)
    mul_tensor[(triton.cdiv(x.numel(), BLOCK),)](x, y, out, x.numel(), BLOCK=BLOCK, num_warps=4)
    return out
