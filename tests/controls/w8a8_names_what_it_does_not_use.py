# task: matmul_w8a8; expect: ok
# Comments, docstrings and messages name what may not be used: torch._int_mm, torch.ops.aten.
"""Quantises by itself: neither torch.quantize_per_tensor and torch.int_repr nor torch.ao.quantization are used."""
import torch
import triton
import triton.language as tl


@triton.jit
def quantise_lines(x_ptr, q_ptr, scale_ptr, length, line_stride, step, q_line_stride, q_step, BLOCK: tl.constexpr):
    line = tl.program_id(0).to(tl.int64)
    biggest = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, length, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + line * line_stride + i * step, mask=i < length, other=0.0).to(tl.float32)
        biggest = tl.maximum(biggest, tl.abs(x))
    scale = tl.max(biggest, axis=0) / 127.0
    tl.store(scale_ptr + line, scale)
    safe = tl.where(scale == 0.0, 1.0, scale)
    for start in range(0, length, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + line * line_stride + i * step, mask=i < length, other=0.0).to(tl.float32)
        q = tl.minimum(tl.maximum(tl.floor(x / safe + 0.5), -127.0), 127.0)
        tl.store(q_ptr + line * q_line_stride + i * q_step, q.to(tl.int8), mask=i < length)


@triton.jit
def matmul_int8(a_ptr, b_ptr, row_scale_ptr, col_scale_ptr, out_ptr, M, N, K,
                BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.int32)
    for start in range(0, K, BK):
        ks = start + tl.arange(0, BK)
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0)
        # The quantised weight is stored column by column, so that K runs along memory for both operands.
        b = tl.load(b_ptr + cols[None, :] * K + ks[:, None], mask=(ks[:, None] < K) & (cols[None, :] < N), other=0)
        acc += tl.dot(a, b, out_dtype=tl.int32)
    row_scale = tl.load(row_scale_ptr + rows, mask=rows < M, other=0.0)
    col_scale = tl.load(col_scale_ptr + cols, mask=cols < N, other=0.0)
    out = acc.to(tl.float32) * row_scale[:, None] * col_scale[None, :]
    tl.store(out_ptr + rows[:, None] * N + cols[None, :], out, mask=(rows[:, None] < M) & (cols[None, :] < N))


def matmul_w8a8(input, weight):
    M, K = input.shape
    N = weight.shape[1]
    device = input.device
    a = torch.empty((M, K), device=device, dtype=torch.int8)
    b = torch.empty((N, K), device=device, dtype=torch.int8)
    row_scale = torch.empty((M,), device=device, dtype=torch.float32)
    col_scale = torch.empty((N,), device=device, dtype=torch.float32)
    out = torch.empty((M, N), device=device, dtype=torch.float32)
    quantise_lines[(M,)](input, a, row_scale, K, input.stride(0), input.stride(1), K, 1, BLOCK=1024, num_warps=4)
    quantise_lines[(N,)](weight, b, col_scale, K, weight.stride(1), weight.stride(0), K, 1, BLOCK=1024, num_warps=4)
    BM, BN, BK = (128, 128, 64) if M > 64 and N > 64 else (32, 32, 32)
    matmul_int8[(triton.cdiv(M, BM), triton.cdiv(N, BN))](
        a, b, row_scale, col_scale, out, M, N, K, BM=BM, BN=BN, BK=BK, num_warps=8 if BM == 128 else 4)
    return out


def test_matmul_w8a8():
    x, y = torch.randint(-8, 8, (32, 32), dtype=torch.int8), torch.randint(-8, 8, (32, 32), dtype=torch.int8)
    assert torch._int_mm(x, y).shape == (32, 32), "torch._int_mm must give the shape"
