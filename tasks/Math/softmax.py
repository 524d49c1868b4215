"""
---
category: Math
signature: "softmax(input: Tensor, dim: int, dtype: Optional[torch.dtype] = None) -> Tensor"
precisions: [fp32]
difficulty: 3
policy: triton
comparison: tolerance
reduction_length: K
---
Softmax along one dimension: exp(x_i) / sum_j exp(x_j), for every slice of `input` along `dim`.

`dim` may be negative and need not be the last one. When `dtype` is given, the input counts as converted to it first and
the result has that dtype; else the result has the input's dtype. Inputs are float32 of one to four dimensions; slices may be
as short as one element and of any odd length, and views may be non-contiguous. Values may be large: subtract each
slice's maximum before exponentiating. The result is a new contiguous tensor of the input's shape.
Maximum, exponentials, sum and division must happen in Triton kernels; torch may allocate, permute and reshape.
"""
import numpy as np
import torch


def softmax(input, dim, dtype=None):
    return torch.nn.functional.softmax(input, dim, dtype=dtype)


def oracle(input, dim, dtype=None):
    return np.exp(input - np.expand_dims(np.logaddexp.reduce(input, axis=dim), dim))


def cases(make):
    yield make.case("rows37", input=make.normal(19, 37), dim=-1, dtype=None)
    yield make.case("rows1025", input=make.normal(3, 1025), dim=1, dtype=None)
    yield make.case("dim0", input=make.normal(33, 21), dim=0, dtype=None)
    yield make.case("middle", input=make.normal(3, 13, 7), dim=1, dtype=None)
    yield make.case("single_column", input=make.normal(9, 1), dim=1, dtype=None)
    yield make.case("vector", input=make.normal(257), dim=0, dtype=None)
    yield make.case("unaligned", input=make.normal(11, 35).unaligned(), dim=-1, dtype=None)
    yield make.held_out("rows515", input=make.normal(5, 515), dim=-1, dtype=None)
    yield make.held_out("first_of_three", input=make.normal(23, 5, 3), dim=0, dtype=None)


def perf_cases(make):
    yield make.case("rows1k", input=make.normal(4096, 1024), dim=-1, dtype=None)
    yield make.case("rows4k", input=make.normal(8192, 4096), dim=-1, dtype=None)
    yield make.case("dim0", input=make.normal(2048, 2048), dim=0, dtype=None)


def cost(case):
    x = case.inputs["input"]
    return {"bytes": 2 * x.numel * x.itemsize, "flops": None, "reduction": x.shape[case.inputs["dim"]]}
