# task: mul; expect: ok
# The product is a function under @triton.jit that is handed over as a constexpr; constants and functions of math are used.
import torch
import triton
import triton.language as tl


SCALE = tl.constexpr(1.0)


@triton.jit
def product(a, b):
    return a * b


@triton.jit
def mul_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, F: tl.constexpr, HINT: tl.constexpr = None):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    if HINT is not None:
        mask = mask & (offsets < HINT)
    z = F(tl.load(x_ptr + offsets, mask=mask), tl.load(y_ptr + offsets, mask=mask)) * SCALE
    tl.store(out_ptr + offsets, z, mask=mask)


def mul(input, other):
    if not isinstance(other, torch.Tensor):
        other = torch.full((1,), float(other), dtype=input.dtype, device=input.device)
    x, y = torch.broadcast_tensors(input, other)
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    if out.numel() == 0:
        return out
    mul_kernel[(triton.cdiv(out.numel(), 1024),)](x, y, out, out.numel(), BLOCK=1024, F=product)
    return out
