# task: sum; expect: ok
# One element after the other in float32: the honest order with the largest error.
import torch
import triton
import triton.language as tl


@triton.jit
def sum_rows(x_ptr, out_ptr, n_rows, n_cols, ROWS: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    mask = rows < n_rows
    acc = tl.zeros((ROWS,), dtype=tl.float32)
    for column in range(0, n_cols):
        acc += tl.load(x_ptr + rows * n_cols + column, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + rows, acc.to(out_ptr.dtype.element_ty), mask=mask)


def sum(input, dim, keepdim=False, dtype=None):
    dims = [d % input.dim() for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    kept = [d for d in range(input.dim()) if d not in dims]
    x = input if dtype is None else input.to(dtype)
    x = x.permute(kept + dims).contiguous()
    shape = [x.shape[i] for i in range(len(kept))]
    n_rows = 1
    for s in shape:
        n_rows *= s
    n_cols = x.numel() // max(n_rows, 1)
    out = torch.empty(shape, device=x.device, dtype=x.dtype)
    sum_rows[(triton.cdiv(n_rows, 32),)](x, out, n_rows, n_cols, ROWS=32, num_warps=1)
    if keepdim:
        out = out.reshape([1 if d in dims else input.shape[d] for d in range(input.dim())])
    return out
