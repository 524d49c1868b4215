# Wrong: only the first 256 columns of a row are added.
import torch
import triton
import triton.language as tl


@triton.jit
def sum_one_tile(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0))


def sum(input, dim, keepdim=False, dtype=None):
    dims = [d % input.dim() for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    kept = [d for d in range(input.dim()) if d not in dims]
    x = input.permute(kept + dims).contiguous()
    out = torch.empty([input.shape[d] for d in kept], device=x.device, dtype=x.dtype)
    sum_one_tile[(out.numel(),)](x, out, x.numel() // out.numel(), BLOCK=256)
    if keepdim:
        out = out.reshape([1 if d in dims else input.shape[d] for d in range(input.dim())])
    return out
