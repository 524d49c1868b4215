# task: softmax; expect: ok
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_online(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    base = row * n_cols
    running_max = tl.full((BLOCK,), -float("inf"), tl.float32)
    running_sum = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        new_max = tl.maximum(running_max, x)
        # A lane that has seen only padding keeps -inf; shifting it by zero avoids inf - inf.
        shift = tl.where(new_max == -float("inf"), 0.0, new_max)
        running_sum = running_sum * tl.exp(running_max - shift) + tl.exp(x - shift)
        running_max = new_max
    row_max = tl.max(running_max, axis=0)
    total = tl.sum(running_sum * tl.exp(running_max - row_max), axis=0)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        y = tl.exp(x - row_max) / total
        tl.store(out_ptr + base + cols, y.to(out_ptr.dtype.element_ty), mask=cols < n_cols)


def softmax(input, dim, dtype=None):
    x = input if dtype is None else input.to(dtype)
    x = x.movedim(dim, -1).contiguous()
    out = torch.empty_like(x)
    n_cols = x.shape[-1]
    if x.numel() > 0:
        BLOCK = min(1024, triton.next_power_of_2(n_cols))
        softmax_online[(x.numel() // n_cols,)](x, out, n_cols, BLOCK=BLOCK, num_warps=4)
    return out.movedim(-1, dim).contiguous()
