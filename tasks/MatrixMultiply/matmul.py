"""
---
category: MatrixMultiply
signature: "matmul(input: Tensor, other: Tensor) -> Tensor"
precisions: [fp32, fp16, bf16]
difficulty: 3
policy: triton
comparison: tolerance
reduction_length: K
---
Matrix product: input (M, K) times other (K, N) gives (M, N), in the inputs' dtype.

Both operands are two-dimensional. M, N and K are arbitrary, also one and numbers that no tile divides; either operand may be
a transposed view. Accumulate in float32 and round once at the end, whatever the inputs' dtype. For float32 inputs the
product must have full float32 precision: TF32 is not accepted, so pass input_precision="ieee" to tl.dot.
The result is a new contiguous tensor. The product must be computed by a Triton kernel; torch.matmul, @, einsum and the
like are not allowed, allocation and views are.
"""
import torch


def matmul(input, other):
    return torch.matmul(input, other)


def oracle(input, other):
    return (input[:, :, None] * other[None, :, :]).sum(axis=1)


def low_precision(input, other):
    total = torch.zeros(input.shape[0], other.shape[1], dtype=input.dtype, device=input.device)
    for k in range(input.shape[1]):
        total += input[:, k:k + 1] * other[k:k + 1]
    return total


def cases(make):
    yield make.case("m37_n45_k53", input=make.normal(37, 53), other=make.normal(53, 45))
    yield make.case("tile64", input=make.normal(64, 64), other=make.normal(64, 64))
    yield make.case("row", input=make.normal(1, 70), other=make.normal(70, 33))
    yield make.case("k1", input=make.normal(19, 1), other=make.normal(1, 23))
    yield make.case("transposed", input=make.normal(48, 40).map(lambda t: t.t()),
                    other=make.normal(31, 48).map(lambda t: t.t()))
    yield make.case("unaligned", input=make.normal(34, 37).unaligned(), other=make.normal(37, 35).unaligned())
    yield make.held_out("m50_n81_k97", input=make.normal(50, 97), other=make.normal(97, 81))
    yield make.held_out("column", input=make.normal(67, 43), other=make.normal(43, 1))


def perf_cases(make):
    yield make.case("1k", input=make.normal(1024, 1024), other=make.normal(1024, 1024))
    yield make.case("4k", input=make.normal(4096, 4096), other=make.normal(4096, 4096))
    yield make.case("skinny", input=make.normal(64, 8192), other=make.normal(8192, 8192))
    yield make.case("odd", input=make.normal(2047, 1031), other=make.normal(1031, 1999))


def cost(case):
    a, b = case.inputs["input"], case.inputs["other"]
    (m, k), n = a.shape, b.shape[1]
    return {"bytes": (m * k + k * n + m * n) * a.itemsize, "flops": 2 * m * n * k, "reduction": k}
