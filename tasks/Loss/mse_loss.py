"""
---
category: Loss
signature: "mse_loss(input: Tensor, target: Tensor, reduction: str = 'mean') -> Tensor"
precisions: [fp32]
difficulty: 2
policy: triton
comparison: tolerance
reduction_length: K
---
Squared difference of two tensors of one shape, (input - target)**2, then reduced.

reduction = 'none' gives the tensor of squares, 'sum' their sum and 'mean' their sum divided by the number of elements; the latter
two results are zero-dimensional. Inputs are float32 of equal shape, of any rank and size (also one element), possibly
non-contiguous. Accumulate in float32 at least. The result is a new contiguous tensor of the input's dtype.
Differences, squares and additions must happen in Triton kernels; torch may allocate and reshape.
"""
import math

import numpy as np
import torch


def mse_loss(input, target, reduction="mean"):
    return torch.nn.functional.mse_loss(input, target, reduction=reduction)


def oracle(input, target, reduction="mean"):
    squares = input**2 - 2 * input * target + target**2
    if reduction == "none":
        return squares
    total = math.fsum(squares.ravel())  # exact, then rounded once
    return np.float64(total / squares.size if reduction == "mean" else total)


def cases(make):
    # Squares that are only added up hide rounded inputs, unless the difference cancels.
    def far(*shape):
        return make.normal(*shape, mean=100)

    yield make.case("mean_n3001", input=far(3001), target=far(3001), reduction="mean")
    yield make.case("sum_37x45", input=far(37, 45), target=far(37, 45), reduction="sum")
    yield make.case("none_1023", input=make.normal(3, 341), target=make.normal(3, 341), reduction="none")
    yield make.case("one", input=make.normal(1), target=make.normal(1), reduction="mean")
    yield make.case("transposed", input=far(33, 61).map(lambda t: t.t()), target=far(61, 33), reduction="mean")
    yield make.case("unaligned", input=far(777).unaligned(), target=far(777).unaligned(), reduction="mean")
    yield make.held_out("sum_n2500", input=far(2500), target=far(2500), reduction="sum")
    yield make.held_out("mean_cube", input=far(3, 11, 43), target=far(3, 11, 43), reduction="mean")


def perf_cases(make):
    yield make.case("mean_4m", input=make.normal(1 << 22), target=make.normal(1 << 22), reduction="mean")
    yield make.case("none_16m", input=make.normal(4096, 4096), target=make.normal(4096, 4096), reduction="none")
    yield make.case("sum_32m", input=make.normal(1 << 25), target=make.normal(1 << 25), reduction="sum")


def cost(case):
    x = case.inputs["input"]
    elementwise = case.inputs["reduction"] == "none"
    written = x.numel if elementwise else 1
    return {"bytes": (2 * x.numel + written) * x.itemsize, "flops": 3 * x.numel,
            "reduction": 1 if elementwise else x.numel}
