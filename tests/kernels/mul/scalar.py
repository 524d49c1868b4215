# Right but slow: one element per program.
import torch
import triton
import triton.language as tl


@triton.jit
def mul_one(x_ptr, y_ptr, out_ptr):
    i = tl.program_id(0)
    tl.store(out_ptr + i, tl.load(x_ptr + i) * tl.load(y_ptr + i))


def mul(input, other):
    if not isinstance(other, torch.Tensor):
        other = torch.full((1,), other, dtype=input.dtype, device=input.device)
    x, y = torch.broadcast_tensors(input, other)
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    mul_one[(x.numel(),)](x, y, out, num_warps=1)
    return out
