# task: mul; expect: unsupported_on_cpu; on cuda: ok
# An honest wrapper that asks for tensors on a GPU.
import torch
import triton
import triton.language as tl


@triton.jit
def mul_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    product = tl.load(x_ptr + offsets, mask=mask) * tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, product, mask=mask)


def mul(input, other):
    assert input.is_cuda, "a tensor on a GPU is expected"
    if not isinstance(other, torch.Tensor):
        other = torch.full((1,), float(other), dtype=input.dtype, device=input.device)
    x, y = torch.broadcast_tensors(input, other)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    mul_kernel[(triton.cdiv(x.numel(), 1024),)](x.contiguous(), y.contiguous(), out, x.numel(), BLOCK=1024)
    return out
