# task: argmax; expect: ok
# The largest of all lanes is the last of them when sorted. tl.sort calls what Triton runs while compiling (_get_int_dtype).
import torch
import triton
import triton.language as tl


@triton.jit
def argmax_rows(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    where = lanes
    for start in range(0, n_cols, BLOCK):
        cols = start + lanes
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        better = x > best
        where = tl.where(better, cols, where)
        best = tl.where(better, x, best)
    top = tl.max(tl.where(lanes == BLOCK - 1, tl.sort(best), -float("inf")), axis=0)
    first = tl.min(tl.where(best == top, where, 2147483647), axis=0)
    tl.store(out_ptr + row, first.to(tl.int64))


def argmax(input, dim, keepdim=False):
    x = input.reshape(1, -1) if dim is None else input.movedim(dim, -1)
    x = x.contiguous()
    n_cols = x.shape[-1]
    out = torch.empty(x.shape[:-1], device=x.device, dtype=torch.int64)
    BLOCK = min(128, triton.next_power_of_2(n_cols))
    argmax_rows[(x.numel() // n_cols,)](x, out, n_cols, BLOCK=BLOCK, num_warps=4)
    if dim is None:
        return out.reshape([1] * input.dim() if keepdim else [])
    return out.unsqueeze(dim) if keepdim else out
