# Wrong for the compiler: a host tensor method that device code does not have.
import torch
import triton
import triton.language as tl


@triton.jit
def argmax_tiles(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = -float("inf")
    where = 0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf"))
        tile_best = tl.max(x, axis=0)
        tile_where = tl.argmax(x, axis=0)
        where = tl.where(tile_best > best, tile_where, where)
        best = tl.maximum(best, tile_best)
    tl.store(out_ptr + row, where.tolist()[0])


def argmax(input, dim, keepdim=False):
    x = (input.reshape(1, -1) if dim is None else input.movedim(dim, -1)).contiguous()
    n_cols = x.shape[-1]
    out = torch.zeros(x.shape[:-1], device=x.device, dtype=torch.int64)
    argmax_tiles[(x.numel() // n_cols,)](x, out, n_cols, BLOCK=256)
    if dim is None:
        return out.reshape([1] * input.dim() if keepdim else [])
    return out.unsqueeze(dim) if keepdim else out
