"""
---
category: Fusion
signature: "fused_add_gelu(input: Tensor, other: Union[Tensor, float], alpha: float = 1, approximate: str = 'none') -> Tensor"
precisions: [fp32]
difficulty: 2
policy: triton
comparison: tolerance
reduction_length: 1
---
GELU of a scaled sum, in one pass: gelu(input + alpha * other).

`other` is a tensor that broadcasts with `input`, or a Python number. approximate = 'none' means x * 0.5 * (1 + erf(x / sqrt(2))),
'tanh' means 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))). Inputs are float32 of any rank and
size (also one element), possibly non-contiguous. The result is a new contiguous tensor of the broadcast shape; large
magnitudes must not give NaN. The sum and the activation must happen in one Triton kernel, without an intermediate tensor in
memory; torch may allocate, expand and reshape.
"""
import math

import numpy as np
import torch


def fused_add_gelu(input, other, alpha=1, approximate="none"):
    return torch.nn.functional.gelu(torch.add(input, other, alpha=alpha), approximate=approximate)


def oracle(input, other, alpha=1, approximate="none"):
    x = input + alpha * other
    if approximate == "tanh":  # 0.5 (1 + tanh u) is the logistic function of 2 u
        return x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * np.vectorize(math.erfc, otypes=[float])(-x / math.sqrt(2))


def cases(make):
    yield make.case("n1023", input=make.normal(1023), other=make.normal(1023), alpha=1, approximate="none")
    yield make.case("alpha_tanh", input=make.normal(37, 55), other=make.normal(37, 55), alpha=0.5, approximate="tanh")
    yield make.case("row", input=make.normal(19, 65), other=make.normal(65), alpha=2, approximate="none")
    yield make.case("number", input=make.normal(700), other=0.75, alpha=1, approximate="tanh")
    yield make.case("one", input=make.uniform(1, lo=0.5, hi=2), other=make.uniform(1), alpha=1, approximate="none")
    yield make.case("unaligned", input=make.normal(777).unaligned(), other=make.normal(777).unaligned(), alpha=1,
                    approximate="none")
    yield make.held_out("outer", input=make.normal(23, 1), other=make.normal(1, 39), alpha=-1.5, approximate="tanh")
    yield make.held_out("transposed", input=make.normal(27, 31).map(lambda t: t.t()), other=make.normal(31, 27), alpha=3,
                        approximate="none")


def perf_cases(make):
    yield make.case("4m", input=make.normal(1 << 22), other=make.normal(1 << 22), alpha=1, approximate="none")
    yield make.case("bias_tanh", input=make.normal(8192, 4096), other=make.normal(4096), alpha=1, approximate="tanh")


def cost(case):
    # Every case broadcasts `other` to the shape of `input`, so the result has as many elements as the input.
    x, y = case.inputs["input"], case.inputs["other"]
    read = 0 if isinstance(y, (int, float)) else y.numel
    return {"bytes": (2 * x.numel + read) * x.itemsize, "flops": None, "reduction": 1}
