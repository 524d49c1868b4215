"""
---
category: Reduce
signature: "sum(input: Tensor, dim: Union[int, Tuple[int, ...]], keepdim: bool = False, dtype: Optional[torch.dtype] = None) -> Tensor"
precisions: [fp32]
difficulty: 3
policy: triton
comparison: tolerance
reduction_length: K
---
Sum of a tensor over one dimension or over several at once.

`dim` is an integer or a tuple of integers, negative ones counting from the end. With keepdim=True the reduced dimensions stay
with size one, otherwise they vanish. When `dtype` is given the input counts as converted to it first and the
result has it; else the result has the input's dtype. Inputs are float32, one- to four-dimensional, of arbitrary sizes
(also one), possibly non-contiguous. Accumulate in float32 at least; a blocked order of summation is welcome.
The result is a new contiguous tensor. All additions must happen in Triton kernels; torch may allocate, permute and reshape.
"""
import math

import numpy as np
import torch


def sum(input, dim, keepdim=False, dtype=None):
    return torch.sum(input, dim, keepdim=keepdim, dtype=dtype)


def oracle(input, dim, keepdim=False, dtype=None):
    axes = tuple(d % input.ndim for d in (dim if isinstance(dim, (tuple, list)) else (dim,)))
    kept = [d for d in range(input.ndim) if d not in axes]
    rows = input.transpose(kept + list(axes)).reshape([input.shape[d] for d in kept] + [-1])
    totals = np.apply_along_axis(math.fsum, -1, rows)  # exact, then rounded once
    return np.expand_dims(totals, axes) if keepdim else totals


def cases(make):
    yield make.case("rows300", input=make.normal(23, 300), dim=1, keepdim=False, dtype=None)
    yield make.case("rows2049", input=make.normal(3, 2049), dim=-1, keepdim=True, dtype=None)
    yield make.case("dim0", input=make.normal(77, 13), dim=0, keepdim=False, dtype=None)
    yield make.case("two_dims", input=make.normal(5, 11, 19), dim=(2, 1), keepdim=False, dtype=None)
    yield make.case("single_column", input=make.normal(17, 1), dim=1, keepdim=False, dtype=None)
    yield make.case("unaligned", input=make.normal(7, 301).unaligned(), dim=1, keepdim=False, dtype=None)
    yield make.held_out("rows1111", input=make.normal(4, 1111), dim=-1, keepdim=False, dtype=None)
    yield make.held_out("all_three", input=make.normal(7, 13, 9, mean=0.2), dim=(0, 1, 2), keepdim=False, dtype=None)


def perf_cases(make):
    yield make.case("rows1k", input=make.normal(8192, 1024), dim=1, keepdim=False, dtype=None)
    yield make.case("rows64k", input=make.normal(256, 65536), dim=1, keepdim=False, dtype=None)
    yield make.case("dim0", input=make.normal(4096, 4096), dim=0, keepdim=False, dtype=None)


def cost(case):
    x, dims = case.inputs["input"], case.inputs["dim"]
    dims = dims if isinstance(dims, (tuple, list)) else (dims,)
    length = 1
    for d in dims:
        length *= x.shape[d]
    return {"bytes": (x.numel + x.numel // length) * x.itemsize, "flops": x.numel, "reduction": length}
