"""
---
category: Activation
signature: "gelu(input: Tensor, approximate: str = 'none') -> Tensor"
precisions: [fp32, fp16, bf16]
difficulty: 2
policy: triton
comparison: tolerance
reduction_length: 1
---
Gaussian error linear unit, element by element.

* approximate = 'none': x * Phi(x), where Phi is the normal distribution function, 0.5 * (1 + erf(x / sqrt(2))).
* approximate = 'tanh': 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))).

The input is a floating-point tensor of any rank and any number of elements: odd sizes, a single element and
non-contiguous views occur. The result is a new contiguous tensor of the input's shape and dtype; the input stays as it is.
Half-precision inputs are to be computed in float32 and rounded once at the end. Large magnitudes must not give NaN.
The arithmetic must happen in a Triton kernel: torch may allocate and reshape, nothing else.
"""
import math

import numpy as np
import torch


def gelu(input, approximate="none"):
    return torch.nn.functional.gelu(input, approximate=approximate)


def oracle(input, approximate="none"):
    if approximate == "tanh":  # 0.5 (1 + tanh u) is the logistic function of 2 u
        u = math.sqrt(2 / math.pi) * (input + 0.044715 * input**3)
        return input / (1 + np.exp(-2 * u))
    return 0.5 * input * np.vectorize(math.erfc, otypes=[float])(-input / math.sqrt(2))


def low_precision(input, approximate="none"):
    if approximate == "tanh":
        return 0.5 * input * (1 + torch.tanh(math.sqrt(2 / math.pi) * (input + 0.044715 * input * input * input)))
    return 0.5 * input * (1 + torch.erf(input * math.sqrt(0.5)))


def cases(make):
    yield make.case("n1023", input=make.normal(1023), approximate="none")
    yield make.case("n2048_tanh", input=make.normal(2048), approximate="tanh")
    yield make.case("one", input=make.uniform(1, lo=0.5, hi=2), approximate="none")
    yield make.case("cube", input=make.normal(3, 17, 29), approximate="tanh")
    yield make.case("unaligned", input=make.normal(777).unaligned(), approximate="none")
    yield make.case("transposed", input=make.normal(33, 65).map(lambda t: t.t()), approximate="none")
    if make.precision != "fp32":  # where rounding after every step shows: 1 + erf cancels
        yield make.case("negative", input=make.normal(1031, mean=-2, std=0.5), approximate="none")
        yield make.case("negative_tanh", input=make.normal(1031, mean=-2, std=0.5), approximate="tanh")
    yield make.held_out("wide", input=make.normal(2, 1, 515), approximate="tanh")
    # Cut out of padding: a slice of the drawn elements could leave the outlier outside.
    yield make.held_out("slice", input=make.normal(21, 24).map(lambda t: torch.nn.functional.pad(t, (3, 7))[:, 3:27]),
                        approximate="none")


def perf_cases(make):
    yield make.case("4m", input=make.normal(1 << 22), approximate="none")
    yield make.case("16m_tanh", input=make.normal(4096, 4096), approximate="tanh")
    yield make.case("64m", input=make.normal(1 << 26), approximate="none")


def cost(case):
    x = case.inputs["input"]
    return {"bytes": 2 * x.numel * x.itemsize, "flops": None, "reduction": 1}
