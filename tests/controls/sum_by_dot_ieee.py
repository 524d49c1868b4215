# task: sum; expect: ok
# Row sums as a product with ones, in full precision.
import torch
import triton
import triton.language as tl


@triton.jit
def sum_rows(x_ptr, out_ptr, rows, columns, BM: tl.constexpr, BK: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    acc = tl.zeros((BM, 16), dtype=tl.float32)
    for start in range(0, columns, BK):
        c = start + tl.arange(0, BK)
        x = tl.load(x_ptr + r[:, None].to(tl.int64) * columns + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < columns), other=0.0)
        acc += tl.dot(x, tl.full((BK, 16), 1.0, tl.float32), input_precision="ieee")
    first = tl.sum(tl.where(tl.arange(0, 16)[None, :] == 0, acc, 0.0), axis=1)
    tl.store(out_ptr + r, first, mask=r < rows)


def sum(input, dim, keepdim=False, dtype=None):
    dims = [d % input.dim() for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    kept = [d for d in range(input.dim()) if d not in dims]
    shape = [input.shape[d] for d in kept]
    x = input.permute(kept + dims).contiguous()
    rows = torch.Size(shape).numel()
    out = torch.empty(shape, device=x.device)
    sum_rows[(triton.cdiv(rows, 16),)](x, out, rows, x.numel() // rows, BM=16, BK=32)
    return out.reshape([1 if d in dims else s for d, s in enumerate(input.shape)]) if keepdim else out
