# task: mse_loss; expect: ok
# Partial sums of 64 elements, added by torch.
import torch
import triton
import triton.language as tl


@triton.jit
def squares(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    d = tl.load(x_ptr + offsets, mask=mask) - tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, d * d, mask=mask)


@triton.jit
def partial_squares(x_ptr, y_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, n, step):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
        acc += (x - y) * (x - y)
    tl.store(partial_ptr + tl.program_id(0), tl.sum(acc, axis=0))


@triton.jit
def finish(partial_ptr, out_ptr, count, divisor, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(partial_ptr + lanes, mask=lanes < count, other=0.0), axis=0)
    tl.store(out_ptr, (total / divisor).to(out_ptr.dtype.element_ty))


def mse_loss(input, target, reduction="mean"):
    x, y = input.contiguous(), target.contiguous()
    n = x.numel()
    BLOCK = 64
    if reduction == "none":
        out = torch.empty_like(x)
        squares[(triton.cdiv(n, BLOCK),)](x, y, out, n, BLOCK=BLOCK, num_warps=4)
        return out
    programs = min(1024, triton.cdiv(n, BLOCK))
    partial = torch.empty((programs,), device=x.device, dtype=torch.float32)
    out = torch.empty((), device=x.device, dtype=x.dtype)
    partial_squares[(programs,)](x, y, partial, n, BLOCK=BLOCK, num_warps=4)
    return partial.sum() / (n if reduction == "mean" else 1)
