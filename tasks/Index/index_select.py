"""
---
category: Index
signature: "index_select(input: Tensor, dim: int, index: Tensor) -> Tensor"
precisions: [fp32]
difficulty: 3
policy: triton
comparison: exact
moves_values: true
reduction_length: 1
---
Picks whole slices of a tensor: slice j of the result along `dim` is slice index[j] of `input`.

`index` is a one-dimensional int64 tensor with values in [0, input.size(dim)); repeats and any order occur. `dim` may be negative.
The result has the input's shape, with the size of `dim` replaced by the length of `index`, and the input's dtype; it is a
new contiguous tensor. Inputs are float32 of one to four dimensions, of arbitrary sizes, possibly non-contiguous.
The values must come out bit for bit. The gathering must happen in a Triton kernel; torch may allocate, permute and reshape.
"""
import numpy as np
import torch


def index_select(input, dim, index):
    return torch.index_select(input, dim, index)


def oracle(input, dim, index):
    slices = np.moveaxis(input, dim, 0)
    return np.moveaxis(np.stack([slices[j] for j in index]), 0, dim)


def cases(make):
    yield make.case("rows", input=make.normal(41, 67), dim=0, index=make.integers(29, lo=0, hi=41))
    yield make.case("columns", input=make.normal(23, 77), dim=1, index=make.integers(35, lo=0, hi=77))
    yield make.case("middle", input=make.normal(5, 19, 31), dim=-2, index=make.permutation(19))
    yield make.case("one", input=make.normal(13, 9), dim=0, index=make.integers(1, lo=0, hi=13))
    yield make.case("transposed", input=make.normal(37, 21).map(lambda t: t.t()), dim=0,
                    index=make.integers(50, lo=0, hi=21))
    yield make.case("unaligned", input=make.normal(17, 33).unaligned(), dim=0, index=make.integers(21, lo=0, hi=17).unaligned())
    yield make.held_out("last_of_four", input=make.normal(3, 4, 5, 43), dim=3, index=make.integers(61, lo=0, hi=43))
    yield make.held_out("vector", input=make.normal(301), dim=0, index=make.integers(77, lo=0, hi=301))


def perf_cases(make):
    yield make.case("embedding", input=make.normal(65536, 512), dim=0, index=make.integers(16384, lo=0, hi=65536))
    yield make.case("columns", input=make.normal(4096, 4096), dim=1, index=make.integers(2048, lo=0, hi=4096))


def cost(case):
    x, index = case.inputs["input"], case.inputs["index"]
    picked = x.numel // x.shape[case.inputs["dim"]] * index.numel
    return {"bytes": 2 * picked * x.itemsize + index.numel * index.itemsize, "flops": None, "reduction": 1}
