# task: matmul_w8a8; expect: ok
# int8 dots in one kernel, whose sums another kernel scales: the kernel that writes the answer holds no dot.
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
def partial_product(a_ptr, b_ptr, sums_ptr, M, N, K, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                    BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.int32)
    for start in range(tl.program_id(2) * BK, K, BK * SPLIT):
        ks = start + tl.arange(0, BK)
        a = tl.load(a_ptr + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0)
        b = tl.load(b_ptr + cols[None, :] * K + ks[:, None], mask=(ks[:, None] < K) & (cols[None, :] < N), other=0)
        acc += tl.dot(a, b, out_dtype=tl.int32)
    tl.atomic_add(sums_ptr + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def scale_sums(sums_ptr, row_scale_ptr, col_scale_ptr, out_ptr, n, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    scale = tl.load(row_scale_ptr + i // N, mask=i < n, other=0.0) * tl.load(col_scale_ptr + i % N, mask=i < n, other=0.0)
    tl.store(out_ptr + i, tl.load(sums_ptr + i, mask=i < n, other=0).to(tl.float32) * scale, mask=i < n)


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
    sums = torch.zeros((M, N), device=device, dtype=torch.int32)
    partial_product[(triton.cdiv(M, 32), triton.cdiv(N, 32), 2)](a, b, sums, M, N, K, SPLIT=2, BM=32, BN=32, BK=32)
    scale_sums[(triton.cdiv(M * N, 1024),)](sums, row_scale, col_scale, out, M * N, N, BLOCK=1024)
    return out
