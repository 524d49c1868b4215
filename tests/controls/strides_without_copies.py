# task: mul; expect: ok
# Two-dimensional views through their strides; broadcasting by strides of zero.
import torch
import triton
import triton.language as tl


@triton.jit
def mul_kernel(x_ptr, y_ptr, out_ptr, n, columns, xr, xc, yr, yc, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    row, column = i // columns, i % columns
    x = tl.load(x_ptr + row * xr + column * xc, mask=mask)
    tl.store(out_ptr + i, x * tl.load(y_ptr + row * yr + column * yc, mask=mask), mask=mask)


def mul(input, other):
    if not isinstance(other, torch.Tensor):
        other = torch.full((), float(other), dtype=input.dtype, device=input.device)
    x, y = torch.broadcast_tensors(input, other)
    shape = x.shape
    if x.dim() != 2:
        x, y = (t.reshape(-1, shape[-1]) for t in (x, y))
    out = torch.empty(shape, dtype=input.dtype, device=input.device)
    mul_kernel[(triton.cdiv(out.numel(), 512),)](x, y, out, out.numel(), x.shape[1], *x.stride(), *y.stride(), BLOCK=512)
    return out
