"""
---
category: Math
signature: "mul(input: Tensor, other: Union[Tensor, float]) -> Tensor"
precisions: [fp32]
extra_precisions: [fp16, bf16]
difficulty: 2
policy: triton
comparison: tolerance
reduction_length: 1
---
Product of two tensors element by element, or of a tensor and a Python number.

Two tensors are broadcast against each other by the usual rules (size-one and missing leading dimensions are stretched);
both have the same floating dtype and the result has it too. When `other` is a number, every element of `input` is
multiplied by it and the dtype stays the input's. Sizes are arbitrary, also one and odd ones; views may be
non-contiguous. The result is a new contiguous tensor of the broadcast shape; neither input is changed.
The multiplication must happen in a Triton kernel: torch may allocate, expand and reshape, nothing else.
"""
import torch


def mul(input, other):
    return torch.mul(input, other)


def oracle(input, other):
    return ((input + other) ** 2 - (input - other) ** 2) / 4


def cases(make):
    yield make.case("n1023", input=make.normal(1023), other=make.normal(1023))
    yield make.case("scalar", input=make.normal(37, 41), other=2.5)
    yield make.case("row", input=make.normal(33, 65), other=make.normal(65))
    yield make.case("outer", input=make.normal(31, 1), other=make.normal(1, 47))
    yield make.case("one", input=make.normal(1), other=make.normal(1))
    yield make.case("transposed", input=make.normal(29, 53).map(lambda t: t.t()), other=make.normal(53, 29))
    yield make.case("unaligned", input=make.normal(777).unaligned(), other=make.normal(777).unaligned())
    yield make.held_out("cube_by_column", input=make.normal(3, 29, 41), other=make.normal(29, 1))
    yield make.held_out("negative", input=make.normal(2053), other=-0.125)


def perf_cases(make):
    yield make.case("4m", input=make.normal(1 << 22), other=make.normal(1 << 22))
    yield make.case("row", input=make.normal(4096, 4096), other=make.normal(4096))
    yield make.case("64m_scalar", input=make.normal(1 << 26), other=0.5)


def _broadcast_numel(a, b):
    rank = max(len(a), len(b))
    a = (1,) * (rank - len(a)) + tuple(a)
    b = (1,) * (rank - len(b)) + tuple(b)
    numel = 1
    for x, y in zip(a, b):
        numel *= y if x == 1 else x
    return numel


def cost(case):
    x, y = case.inputs["input"], case.inputs["other"]
    if isinstance(y, (int, float)):
        return {"bytes": 2 * x.numel * x.itemsize, "flops": x.numel, "reduction": 1}
    out = _broadcast_numel(x.shape, y.shape)
    return {"bytes": (x.numel + y.numel + out) * x.itemsize, "flops": out, "reduction": 1}
