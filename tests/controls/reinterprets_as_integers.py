# task: mul; expect: ok
# The product is stored as its bits: the kernel is given the output's memory as integers.
import torch
import triton
import triton.language as tl


@triton.jit
def mul_kernel(x_ptr, y_ptr, bits_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    product = tl.load(x_ptr + offsets, mask=mask) * tl.load(y_ptr + offsets, mask=mask)
    tl.store(bits_ptr + offsets, product.to(tl.int32, bitcast=True), mask=mask)


def mul(input, other):
    if not isinstance(other, torch.Tensor):
        other = torch.full((1,), float(other), dtype=input.dtype, device=input.device)
    x, y = torch.broadcast_tensors(input, other)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    mul_kernel[(triton.cdiv(x.numel(), 1024),)](x.contiguous(), y.contiguous(), triton.reinterpret(out, tl.int32), x.numel(), BLOCK=1024)
    return out
