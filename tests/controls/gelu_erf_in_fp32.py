# task: gelu_bf16; expect: ok
# float32 inside, an explicit cast at the end; constants of the module.
import torch
import triton
import triton.language as tl


SQRT_HALF = tl.constexpr(0.7071067811865476)


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, TANH: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    if TANH:
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        # tanh(z) = 2 * sigmoid(2z) - 1, so half of (1 + tanh) is a sigmoid, which saturates without NaN.
        y = x * tl.sigmoid(2.0 * inner)
    else:
        y = 0.5 * x * (1.0 + tl.erf(x * SQRT_HALF))
    tl.store(out_ptr + offsets, y.to(out_ptr.dtype.element_ty), mask=mask)


def gelu_bf16(input, approximate="none"):
    x = input.contiguous()
    out = torch.empty_like(x)
    n = x.numel()
    if n == 0:
        return out
    BLOCK = 1024
    gelu_kernel[(triton.cdiv(n, BLOCK),)](x, out, n, TANH=approximate == "tanh", BLOCK=BLOCK, num_warps=4)
    return out
