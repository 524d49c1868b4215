# Wrong: no maximum subtracted, and masked columns count as exp(0).
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_naive(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
    e = tl.exp(x)
    tl.store(out_ptr + row * n_cols + cols, e / tl.sum(e, axis=0), mask=mask)


def softmax(input, dim, dtype=None):
    x = input if dtype is None else input.to(dtype)
    x = x.movedim(dim, -1).contiguous()
    out = torch.empty_like(x)
    n_cols = x.shape[-1]
    softmax_naive[(x.numel() // n_cols,)](x, out, n_cols, BLOCK=triton.next_power_of_2(n_cols))
    return out.movedim(-1, dim).contiguous()
