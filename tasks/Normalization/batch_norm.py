"""
---
category: Normalization
signature: "batch_norm(input: Tensor, running_mean: Tensor, running_var: Tensor, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-05) -> Tensor"
precisions: [fp32]
difficulty: 4
policy: triton
comparison: tolerance
reduction_length: K
in_place: [running_mean, running_var]
---
Batch normalisation over the channel dimension (dimension 1) of a tensor (N, C) or (N, C, ...).

For every channel c: (x - mean_c) / sqrt(var_c + eps), then times weight_c and plus bias_c where these are given (None: one and
zero). training=False takes mean_c and var_c from running_mean and running_var and leaves them alone. training=True takes
the mean and the *biased* variance over all elements of the channel, and updates in place
running_mean = (1 - momentum) * running_mean + momentum * mean and running_var = (1 - momentum) * running_var +
momentum * *unbiased* variance (divisor count - 1). All tensors are float32; sizes are arbitrary, and the input may be non-contiguous.
Compute the variance from differences to the mean, not as E[x*x] - E[x]**2. The result is a new tensor of the input's shape.
Statistics and normalisation must happen in Triton kernels; torch may allocate and reshape.
"""
import numpy as np
import torch


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05):
    return torch.nn.functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def oracle(input, running_mean, running_var, weight, bias, training, momentum, eps):
    axes, channel = (0,) + tuple(range(2, input.ndim)), (1, -1) + (1,) * (input.ndim - 2)
    mean, var = running_mean, running_var
    if training:
        count = input.size // input.shape[1]
        mean = input.sum(axis=axes) / count
        var = (input**2).sum(axis=axes) / count - mean**2
        running_mean = running_mean + momentum * (mean - running_mean)
        running_var = running_var + momentum * (var * count / (count - 1) - running_var)
    scale = (var + eps) ** -0.5 * (1 if weight is None else weight)
    shift = (0 if bias is None else bias) - mean * scale
    return input * scale.reshape(channel) + shift.reshape(channel), running_mean, running_var


def _inputs(make, shape, affine, training):
    channels = shape[1]
    return {
        "input": make.normal(*shape),
        # Of one channel, a mean near zero could all but cancel in its update.
        "running_mean": make.normal(channels) if channels > 1 else make.uniform(1, lo=0.5, hi=2.0),
        "running_var": make.uniform(channels, lo=0.5, hi=2.0), "weight": make.normal(channels) if affine else None,
        "bias": make.normal(channels) if affine else None, "training": training, "momentum": 0.1, "eps": 1e-5,
    }


def cases(make):
    yield make.case("train_4x5x37", **_inputs(make, (4, 5, 37), True, True))
    yield make.case("eval_3x7x9x11", **_inputs(make, (3, 7, 9, 11), True, False))
    yield make.case("train_plain_33x6", **_inputs(make, (33, 6), False, True))
    yield make.case("eval_plain_2x3x300", **_inputs(make, (2, 3, 300), False, False))
    yield make.case("train_one_channel", **_inputs(make, (3, 1, 5, 7), True, True))
    unaligned = _inputs(make, (3, 6, 35), True, True)
    yield make.case("unaligned", **{**unaligned, **{name: unaligned[name].unaligned() for name in ("input", "weight", "bias")}})
    yield make.held_out("train_2x9x53", **_inputs(make, (2, 9, 53), True, True))
    yield make.held_out("eval_17x12", **_inputs(make, (17, 12), True, False))


def perf_cases(make):
    yield make.case("train_resnet", **_inputs(make, (32, 256, 56, 56), True, True))
    yield make.case("eval_resnet", **_inputs(make, (32, 256, 56, 56), True, False))


def cost(case):
    x, training = case.inputs["input"], case.inputs["training"]
    per_channel = x.numel // x.shape[1]
    return {"bytes": 2 * x.numel * x.itemsize, "flops": None, "reduction": per_channel if training else 1}
