# task: mul; expect: ok
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 1024}, num_warps=4), triton.Config({"BLOCK": 512}, num_warps=2)], key=["n"])
@triton.jit
def mul_tensor(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * y, mask=mask)


@triton.autotune(configs=[triton.Config({"BLOCK": 1024}, num_warps=4), triton.Config({"BLOCK": 512}, num_warps=2)], key=["n"])
@triton.jit
def mul_number(x_ptr, number, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, (x * number).to(out_ptr.dtype.element_ty), mask=mask)


def mul(input, other):
    if not isinstance(other, torch.Tensor):
        x = input.contiguous()
        out = torch.empty_like(x)
        mul_number[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, float(other), out, x.numel())
        return out
    x, y = torch.broadcast_tensors(input, other)
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    mul_tensor[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, out, x.numel())
    return out
