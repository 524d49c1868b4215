# task: softmax; expect: ok
# Compiles slowly: a reduction unrolled over many constexpr steps.
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_rows(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    total = tl.sum(e, axis=0)
    for step in tl.static_range(200):
        total = total * 1.0 + 0.0 * step
    y = e / total
    tl.store(out_ptr + row * n_cols + cols, y.to(out_ptr.dtype.element_ty), mask=mask)


def softmax(input, dim, dtype=None):
    x = input if dtype is None else input.to(dtype)
    x = x.movedim(dim, -1).contiguous()
    out = torch.empty_like(x)
    n_cols = x.shape[-1]
    if x.numel() > 0:
        BLOCK = triton.next_power_of_2(n_cols)
        warps = 4 if BLOCK <= 2048 else 8
        softmax_rows[(x.numel() // n_cols,)](x, out, n_cols, BLOCK=BLOCK, num_warps=warps)
    return out.movedim(-1, dim).contiguous()
