# task: sum; expect: ok
# Blocks store their sums; the one that an atomic counter makes the last of its row adds them.
import torch
import triton
import triton.language as tl


@triton.jit
def add_blocks(x_ptr, sums_ptr, counts_ptr, out_ptr, columns, blocks, BLOCK: tl.constexpr, BLOCKS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + c, mask=c < columns, other=0.0)
    tl.store(sums_ptr + row * blocks + tl.program_id(1), tl.sum(x, axis=0))
    tl.debug_barrier()
    if tl.atomic_add(counts_ptr + row, 1) == blocks - 1:
        b = tl.arange(0, BLOCKS)
        sums = tl.load(sums_ptr + row * blocks + b, mask=b < blocks, other=0.0)
        tl.store(out_ptr + row, tl.sum(sums, axis=0))


def sum(input, dim, keepdim=False, dtype=None):
    dims = [d % input.dim() for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    kept = [d for d in range(input.dim()) if d not in dims]
    shape = [input.shape[d] for d in kept]
    x = input.permute(kept + dims).contiguous()
    rows = torch.Size(shape).numel()
    out = torch.empty(shape, device=x.device)
    blocks = triton.cdiv(x.numel() // rows, 256)
    sums = torch.empty((rows, blocks), device=x.device)
    counts = torch.zeros(rows, device=x.device, dtype=torch.int32)
    add_blocks[(rows, blocks)](x, sums, counts, out, x.numel() // rows, blocks, BLOCK=256,
                               BLOCKS=triton.next_power_of_2(blocks))
    return out.reshape([1 if d in dims else s for d, s in enumerate(input.shape)]) if keepdim else out
