# Wrong: the second operand is read modulo its size, which is broadcasting for trailing rows only.
import torch
import triton
import triton.language as tl


@triton.jit
def mul_modulo(x_ptr, y_ptr, out_ptr, n, m, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets % m, mask=mask)
    tl.store(out_ptr + offsets, x * y, mask=mask)


def mul(input, other):
    if not isinstance(other, torch.Tensor):
        other = torch.full((1,), other, dtype=input.dtype, device=input.device)
    x, y = input.contiguous(), other.contiguous()
    out = torch.empty_like(x)
    mul_modulo[(triton.cdiv(x.numel(), 512),)](x, y, out, x.numel(), y.numel(), BLOCK=512)
    return out
