# task: sum; expect: ok
# One element after the other in float32: the honest order with the largest error.
import torch
import triton
import triton.language as tl


@triton.jit
def sum_rows(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    acc = tl.zeros((1,), dtype=tl.float32)
    for start in range(0, n_cols):
        cols = start + tl.arange(0, 1)
        acc += tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(acc, axis=0).to(out_ptr.dtype.element_ty))


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
    BLOCK = min(4096, triton.next_power_of_2(n_cols))
    sum_rows[(n_rows,)](x, out, n_cols, BLOCK=BLOCK, num_warps=4)
    if keepdim:
        out = out.reshape([1 if d in dims else input.shape[d] for d in range(input.dim())])
    return out
