# task: mul; expect: ok
# In inference mode, and with a default device that is set and taken back.
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


@torch.inference_mode()
def mul(input, other):
    BLOCK = 1024
    if not isinstance(other, torch.Tensor):
        x = input.contiguous()
        out = torch.empty_like(x)
        mul_number[(triton.cdiv(x.numel(), BLOCK),)](x, float(other), out, x.numel(), BLOCK=BLOCK, num_warps=4)
        return out
    with torch.device(input.device):
        x, y = torch.broadcast_tensors(input, other)
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    mul_tensor[(triton.cdiv(x.numel(), BLOCK),)](x, y, out, x.numel(), BLOCK=BLOCK, num_warps=4)
    return out
