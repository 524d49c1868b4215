# task: avg_pool1d; expect: ok
# The window's length is no constant of the kernel.
import torch
import triton
import triton.language as tl


@triton.jit
def avg_pool_kernel(x_ptr, out_ptr, length, out_length, stride, padding, K, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    positions = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = positions < out_length
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for j in range(K):
        source = positions * stride - padding + j
        mask = inside & (source >= 0) & (source < length)
        acc += tl.load(x_ptr + row * length + source, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * out_length + positions, (acc / K).to(out_ptr.dtype.element_ty), mask=inside)


def avg_pool1d(input, kernel_size, stride=None, padding=0):
    stride = kernel_size if stride is None else stride
    x = input.contiguous()
    length = x.shape[-1]
    out_length = (length + 2 * padding - kernel_size) // stride + 1
    out = torch.empty(list(x.shape[:-1]) + [out_length], device=x.device, dtype=x.dtype)
    BLOCK = 256
    grid = (x.numel() // length, triton.cdiv(out_length, BLOCK))
    avg_pool_kernel[grid](x, out, length, out_length, stride, padding, K=kernel_size, BLOCK=BLOCK, num_warps=4)
    return out
