"""
---
category: Pooling
signature: "avg_pool1d(input: Tensor, kernel_size: int, stride: Optional[int] = None, padding: int = 0) -> Tensor"
precisions: [fp32]
difficulty: 3
policy: triton
comparison: tolerance
reduction_length: K
---
Average over a sliding window along the last dimension.

`input` is (N, C, L) or (C, L). Output position l is the mean of the `kernel_size` inputs starting at l * stride - padding; positions
outside 0..L-1 count as zeros and still count in the divisor, which is always kernel_size. stride=None means
kernel_size; padding is at most half of kernel_size. The output length is floor((L + 2 * padding - kernel_size) / stride) + 1.
Inputs are float32, sizes arbitrary, views possibly non-contiguous. The result is a new contiguous tensor of the input's dtype.
The averaging must happen in a Triton kernel; torch may allocate and reshape.
"""
import numpy as np
import torch


def avg_pool1d(input, kernel_size, stride=None, padding=0):
    return torch.nn.functional.avg_pool1d(input, kernel_size, stride=stride, padding=padding)


def oracle(input, kernel_size, stride=None, padding=0):
    stride = kernel_size if stride is None else stride
    margins = [(0, 0)] * (input.ndim - 1)
    # Differences of running sums, which begin with one zero of their own.
    sums = np.pad(input, margins + [(padding + 1, padding)]).cumsum(axis=-1)
    starts = np.arange(0, sums.shape[-1] - kernel_size, stride)
    return (sums[..., starts + kernel_size] - sums[..., starts]) / kernel_size


def cases(make):
    yield make.case("k3s2p1", input=make.normal(3, 5, 101), kernel_size=3, stride=2, padding=1)
    yield make.case("k4", input=make.normal(2, 7, 63), kernel_size=4, stride=None, padding=0)
    yield make.case("overlap", input=make.normal(1, 3, 300), kernel_size=5, stride=1, padding=2)
    yield make.case("unbatched", input=make.normal(6, 77), kernel_size=2, stride=3, padding=0)
    yield make.case("global", input=make.normal(4, 3, 17), kernel_size=17, stride=1, padding=0)
    yield make.case("unaligned", input=make.normal(3, 5, 71).unaligned(), kernel_size=3, stride=1, padding=1)
    yield make.held_out("k7s3p2", input=make.normal(2, 3, 83), kernel_size=7, stride=3, padding=2)
    yield make.held_out("k1s2", input=make.normal(3, 4, 29), kernel_size=1, stride=2, padding=0)


def perf_cases(make):
    yield make.case("k3s2p1", input=make.normal(32, 256, 2048), kernel_size=3, stride=2, padding=1)
    yield make.case("k8", input=make.normal(16, 512, 8192), kernel_size=8, stride=None, padding=0)


def cost(case):
    x, k = case.inputs["input"], case.inputs["kernel_size"]
    stride = k if case.inputs["stride"] is None else case.inputs["stride"]
    length = x.shape[-1]
    out = (length + 2 * case.inputs["padding"] - k) // stride + 1
    results = x.numel // length * out
    return {"bytes": (x.numel + results) * x.itemsize, "flops": results * k, "reduction": k}
