"""
---
category: Reduce
signature: "argmax(input: Tensor, dim: Optional[int], keepdim: bool = False) -> Tensor"
precisions: [fp32]
difficulty: 3
policy: triton
comparison: exact
reduction_length: 1
---
Index of the largest element along a dimension.

With an integer `dim` (maybe negative) the result holds, for every slice of `input` along it, the position of the slice's
maximum; with dim=None it is the position in the flattened (row-major) tensor, a zero-dimensional result. keepdim=True keeps the
reduced dimension with size one. The result is int64. Where the maximum occurs several times, give the first position.
Inputs are float32 of one to four dimensions, of arbitrary sizes (also one), possibly non-contiguous, without NaN.
The comparison of elements must happen in a Triton kernel; torch may allocate, permute and reshape.
"""
import numpy as np
import torch


def argmax(input, dim, keepdim=False):
    return torch.argmax(input, dim, keepdim=keepdim)


def oracle(input, dim, keepdim=False):
    axis, values = (0, input.ravel()) if dim is None else (dim, input)
    shape = [1] * values.ndim
    shape[axis] = -1
    places = np.arange(values.shape[axis]).reshape(shape)
    # The first of the places that hold the maximum.
    hits = np.where(values == np.max(values, axis=axis, keepdims=True), places, values.shape[axis])
    return np.min(hits, axis=axis, keepdims=keepdim)


def cases(make):
    yield make.case("rows1500", input=make.normal(7, 1500), dim=1, keepdim=False)
    yield make.case("rows37", input=make.normal(19, 37), dim=-1, keepdim=True)
    yield make.case("dim0", input=make.normal(130, 11), dim=0, keepdim=False)
    yield make.case("flattened", input=make.normal(23, 41), dim=None, keepdim=False)
    yield make.case("single_column", input=make.normal(5, 1), dim=1, keepdim=False)
    yield make.case("ties", input=make.normal(9, 300).map(lambda t: t.round()), dim=1, keepdim=False)
    yield make.case("unaligned", input=make.normal(7, 301).unaligned(), dim=1, keepdim=False)
    yield make.held_out("rows777", input=make.normal(5, 777), dim=1, keepdim=True)
    yield make.held_out("middle", input=make.normal(4, 37, 6), dim=1, keepdim=False)


def perf_cases(make):
    yield make.case("rows1k", input=make.normal(8192, 1024), dim=1, keepdim=False)
    yield make.case("rows32k", input=make.normal(512, 32768), dim=1, keepdim=False)
    yield make.case("dim0", input=make.normal(4096, 2048), dim=0, keepdim=False)


def cost(case):
    x, dim = case.inputs["input"], case.inputs["dim"]
    results = 1 if dim is None else x.numel // x.shape[dim]
    return {"bytes": x.numel * x.itemsize + 8 * results, "flops": None, "reduction": 1}
