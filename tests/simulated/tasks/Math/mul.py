"""
---
category: Math
signature: "mul(input: Tensor, other: Tensor) -> Tensor"
precisions: [fp32]
extra_precisions: []
difficulty: 1
policy: triton
comparison: tolerance
reduction_length: 1
---
Product of two tensors of equal shape, element by element. Its perf case is small enough for Triton's interpreter.
"""
import torch


def mul(input, other):
    return torch.mul(input, other)


def cases(make):
    yield make.case("n1023", input=make.normal(1023), other=make.normal(1023))
    yield make.case("one", input=make.normal(1), other=make.normal(1))
    yield make.held_out("n2053", input=make.normal(2053), other=make.normal(2053))


def perf_cases(make):
    yield make.case("32k", input=make.normal(1 << 15), other=make.normal(1 << 15))


def cost(case):
    x = case.inputs["input"]
    return {"bytes": 3 * x.numel * x.itemsize, "flops": x.numel, "reduction": 1}
