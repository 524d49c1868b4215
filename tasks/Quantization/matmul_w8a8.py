"""
---
category: Quantization
signature: "matmul_w8a8(input: Tensor, weight: Tensor) -> Tensor"
precisions: [w8a8]
difficulty: 4
policy: triton
comparison: quantization
reduction_length: K
thresholds: {cosine: 0.95, l1_relative: 0.05, rmse: 0.1}
integrity: w8a8
---
Matrix product through eight-bit integers: input (M, K) times weight (K, N) gives (M, N) in float32.

Quantise symmetrically, without zero points: every *row* of `input` by its scale max|row| / 127 and every *column* of `weight` by
its scale max|column| / 127, each value rounded to the nearest integer and clamped to [-127, 127]. Multiply the int8 matrices
with int32 accumulation (tl.dot of int8 operands), then multiply entry (i, j) by the scale of row i and that of column j.
A row or column of zeros must give zeros, not NaN. Both inputs are float32, two-dimensional, possibly transposed views; M, N, K
are arbitrary. The result is compared with the unquantised product by cosine similarity, relative L1 error and RMSE.
Quantisation, integer product and scaling must happen in Triton kernels. A floating-point product of the inputs, or of
dequantised values, is not accepted, and neither are torch's quantisation functions; torch may allocate and reshape.
"""
import numpy as np
import torch


def matmul_w8a8(input, weight):
    return torch.matmul(input, weight)


def _quantise(x, dim):
    x = x.double()
    scale = x.abs().amax(dim=dim, keepdim=True) / 127.0
    safe = torch.where(scale == 0, torch.ones_like(scale), scale)
    return torch.clamp(torch.round(x / safe), -127, 127), scale


def scheme_fp64(input, weight):
    a, row_scale = _quantise(input, 1)
    b, column_scale = _quantise(weight, 0)
    return torch.matmul(a, b) * row_scale * column_scale


def oracle(input, weight):
    return (input[:, :, None] * weight[None, :, :]).sum(axis=1)


def _integers(x, axis):
    step = np.max(np.abs(x), axis=axis, keepdims=True) / 127
    return np.floor(np.divide(x, step, out=np.zeros_like(x), where=step > 0) + 0.5).astype(np.int64), step


def scheme_oracle(input, weight):
    a, row_step = _integers(input, 1)
    b, column_step = _integers(weight, 0)
    return (a[:, :, None] * b[None, :, :]).sum(axis=1) * (row_step * column_step)


def cases(make):
    yield make.case("m37_n45_k64", input=make.normal(37, 64, dtype=torch.float32),
                    weight=make.normal(64, 45, dtype=torch.float32))
    yield make.case("odd_k", input=make.normal(20, 77, dtype=torch.float32),
                    weight=make.normal(77, 33, dtype=torch.float32))
    yield make.case("one_row", input=make.normal(1, 96, dtype=torch.float32),
                    weight=make.normal(96, 40, dtype=torch.float32))
    yield make.case("transposed", input=make.normal(48, 32, dtype=torch.float32).map(lambda t: t.t()),
                    weight=make.normal(31, 48, dtype=torch.float32).map(lambda t: t.t()))
    yield make.case("unaligned", input=make.normal(21, 67, dtype=torch.float32).unaligned(),
                    weight=make.normal(67, 35, dtype=torch.float32).unaligned())
    yield make.held_out("m51_n29_k130", input=make.normal(51, 130, dtype=torch.float32),
                        weight=make.normal(130, 29, dtype=torch.float32))


def perf_cases(make):
    yield make.case("2k", input=make.normal(2048, 2048, dtype=torch.float32),
                    weight=make.normal(2048, 2048, dtype=torch.float32))
    yield make.case("decode", input=make.normal(16, 4096, dtype=torch.float32),
                    weight=make.normal(4096, 4096, dtype=torch.float32))


def cost(case):
    a, b = case.inputs["input"], case.inputs["weight"]
    (m, k), n = a.shape, b.shape[1]
    return {"bytes": (m * k + k * n + m * n) * a.itemsize, "flops": 2 * m * n * k, "reduction": k}
