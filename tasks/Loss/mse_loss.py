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
import torch


def mse_loss(input, target, reduction="mean"):
    return torch.nn.functional.mse_loss(input, target, reduction=reduction)


def cases(make):
    yield make.case("mean_n3001", input=make.normal(3001), target=make.normal(3001), reduction="mean")
    yield make.case("sum_37x45", input=make.normal(37, 45), target=make.normal(37, 45), reduction="sum")
    yield make.case("none_1023", input=make.normal(3, 341), target=make.normal(3, 341), reduction="none")
    yield make.case("one", input=make.normal(1), target=make.normal(1), reduction="mean")
    yield make.case("transposed", input=make.normal(33, 61).map(lambda t: t.t()), target=make.normal(61, 33),
                    reduction="mean")
    yield make.held_out("sum_n2500", input=make.normal(2500), target=make.normal(2500), reduction="sum")
    yield make.held_out("mean_cube", input=make.normal(3, 11, 43), target=make.normal(3, 11, 43), reduction="mean")


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
