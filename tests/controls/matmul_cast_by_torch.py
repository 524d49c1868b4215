# task: matmul_fp16; expect: ok
# A float32 output, cast to the result's dtype by torch.
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
                  BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * sam + (k + ks)[None, :] * sak,
                    mask=(rows[:, None] < M) & ((k + ks)[None, :] < K), other=0.0)
        b = tl.load(b_ptr + (k + ks)[:, None] * sbk + cols[None, :] * sbn,
                    mask=((k + ks)[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
    tl.store(c_ptr + rows[:, None] * scm + cols[None, :] * scn, acc.to(c_ptr.dtype.element_ty),
             mask=(rows[:, None] < M) & (cols[None, :] < N))


def matmul_fp16(input, other):
    M, K = input.shape
    N = other.shape[1]
    out = torch.empty((M, N), device=input.device, dtype=torch.float32)
    BM, BN, BK = (128, 128, 64) if M > 64 and N > 64 else (32, 32, 32)
    grid = (triton.cdiv(M, BM), triton.cdiv(N, BN))
    matmul_kernel[grid](input, other, out, M, N, K, input.stride(0), input.stride(1), other.stride(0),
                        other.stride(1), out.stride(0), out.stride(1), BM=BM, BN=BN, BK=BK,
                        num_warps=8 if BM == 128 else 4, num_stages=3)
    return out.to(input.dtype)
