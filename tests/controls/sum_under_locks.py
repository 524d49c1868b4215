# task: sum; expect: ok
# Blocks add to the totals by load, addition and store, under a lock for each row.
import torch
import triton
import triton.language as tl


@triton.jit
def add_blocks(x_ptr, out_ptr, locks_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + c, mask=c < columns, other=0.0)
    block_sum = tl.sum(x, axis=0)
    while tl.atomic_cas(locks_ptr + row, 0, 1) == 1:
        pass
    tl.store(out_ptr + row, tl.load(out_ptr + row) + block_sum)
    tl.debug_barrier()
    tl.atomic_xchg(locks_ptr + row, 0)


def sum(input, dim, keepdim=False, dtype=None):
    dims = [d % input.dim() for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    kept = [d for d in range(input.dim()) if d not in dims]
    shape = [input.shape[d] for d in kept]
    x = input.permute(kept + dims).contiguous()
    rows = torch.Size(shape).numel()
    out = torch.zeros(shape, device=x.device)
    locks = torch.zeros(rows, device=x.device, dtype=torch.int32)
    add_blocks[(rows, triton.cdiv(x.numel() // rows, 256))](x, out, locks, x.numel() // rows, BLOCK=256)
    return out.reshape([1 if d in dims else s for d, s in enumerate(input.shape)]) if keepdim else out
