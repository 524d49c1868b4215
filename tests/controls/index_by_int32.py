# task: index_select; expect: ok
# The index cast to int32 by torch, offsets in int64.
import torch
import triton
import triton.language as tl


@triton.jit
def select_slices(x_ptr, index_ptr, out_ptr, size, count, inner, BLOCK: tl.constexpr):
    pair = tl.program_id(0).to(tl.int64)
    outer = pair // count
    source = tl.load(index_ptr + pair % count).to(tl.int64)
    offsets = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < inner
    x = tl.load(x_ptr + (outer * size + source) * inner + offsets, mask=mask)
    tl.store(out_ptr + pair * inner + offsets, x, mask=mask)


def index_select(input, dim, index):
    x, index = input.contiguous(), index.to(torch.int32).contiguous()
    dim = dim % x.dim()
    size, count = x.shape[dim], index.numel()
    inner = 1
    for s in x.shape[dim + 1:]:
        inner *= s
    shape = list(x.shape)
    shape[dim] = count
    out = torch.empty(shape, device=x.device, dtype=x.dtype)
    if out.numel() > 0:
        BLOCK = min(1024, triton.next_power_of_2(inner))
        grid = (out.numel() // inner, triton.cdiv(inner, BLOCK))
        select_slices[grid](x, index, out, size, count, inner, BLOCK=BLOCK, num_warps=4)
    return out
