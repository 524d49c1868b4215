# Wrong by the task's rule: right values from a floating-point product, nothing is quantised.
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_float(a_ptr, b_ptr, out_ptr, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr,
                 BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        ks = start + tl.arange(0, BK)
        a = tl.load(a_ptr + rows[:, None] * sam + ks[None, :] * sak, mask=(rows[:, None] < M) & (ks[None, :] < K),
                    other=0.0)
        b = tl.load(b_ptr + ks[:, None] * sbk + cols[None, :] * sbn, mask=(ks[:, None] < K) & (cols[None, :] < N),
                    other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    tl.store(out_ptr + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


def matmul_w8a8(input, weight):
    M, K = input.shape
    N = weight.shape[1]
    out = torch.empty((M, N), device=input.device, dtype=torch.float32)
    matmul_float[(triton.cdiv(M, 32), triton.cdiv(N, 32))](
        input, weight, out, M, N, K, input.stride(0), input.stride(1), weight.stride(0), weight.stride(1),
        BM=32, BN=32, BK=32)
    return out
