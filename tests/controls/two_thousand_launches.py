# task: mul; expect: ok
# Two thousand launches of tiny kernels for the first shape.
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
    n = out.numel()
    step = 1 if n < 1500 else 1024
    BLOCK = triton.next_power_of_2(step)
    for start in range(0, n, step):
        end = min(n, start + step)
        mul_kernel[(1,)](x.view(-1)[start:], y.view(-1)[start:], out.view(-1)[start:], end - start, BLOCK=BLOCK)
    return out


def mul(input, other):
    return multiply(input, other)
