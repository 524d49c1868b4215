# task: batch_norm; expect: ok
# Running statistics in place, through views of them.
import torch
import triton
import triton.language as tl


@triton.jit
def channel_statistics(x_ptr, mean_ptr, var_ptr, running_mean_ptr, running_var_ptr, N, C, S, momentum,
                       BLOCK: tl.constexpr):
    c = tl.program_id(0)
    count = N * S
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, count, BLOCK):
        i = start + tl.arange(0, BLOCK)
        where = ((i // S).to(tl.int64) * C + c) * S + i % S
        acc += tl.load(x_ptr + where, mask=i < count, other=0.0)
    mean = tl.sum(acc, axis=0) / count
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, count, BLOCK):
        i = start + tl.arange(0, BLOCK)
        where = ((i // S).to(tl.int64) * C + c) * S + i % S
        d = tl.where(i < count, tl.load(x_ptr + where, mask=i < count, other=0.0) - mean, 0.0)
        acc += d * d
    squares = tl.sum(acc, axis=0)
    tl.store(mean_ptr + c, mean)
    tl.store(var_ptr + c, squares / count)
    old_mean = tl.load(running_mean_ptr + c)
    old_var = tl.load(running_var_ptr + c)
    unbiased = squares / (count - 1)
    tl.store(running_mean_ptr + c, (1.0 - momentum) * old_mean + momentum * mean)
    tl.store(running_var_ptr + c, (1.0 - momentum) * old_var + momentum * unbiased)


@triton.jit
def normalise(x_ptr, out_ptr, mean_ptr, var_ptr, weight_ptr, bias_ptr, n, C, S, eps, WEIGHT: tl.constexpr,
              BIAS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    c = (i // S) % C
    mean = tl.load(mean_ptr + c, mask=mask, other=0.0)
    var = tl.load(var_ptr + c, mask=mask, other=1.0)
    y = (tl.load(x_ptr + i, mask=mask, other=0.0) - mean) / tl.sqrt(var + eps)
    if WEIGHT:
        y = y * tl.load(weight_ptr + c, mask=mask, other=1.0)
    if BIAS:
        y = y + tl.load(bias_ptr + c, mask=mask, other=0.0)
    tl.store(out_ptr + i, y, mask=mask)


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05):
    x = input.contiguous()
    N, C = x.shape[0], x.shape[1]
    S = x.numel() // (N * C)
    mean, var = running_mean, running_var
    if training:
        mean = torch.empty((C,), device=x.device, dtype=torch.float32)
        var = torch.empty((C,), device=x.device, dtype=torch.float32)
        channel_statistics[(C,)](x, mean, var, running_mean.view(-1), running_var[:], N, C, S, momentum, BLOCK=1024, num_warps=8)
    out = torch.empty_like(x)
    BLOCK = 1024
    normalise[(triton.cdiv(x.numel(), BLOCK),)](
        x, out, mean, var, x if weight is None else weight, x if bias is None else bias, x.numel(), C, S, eps,
        WEIGHT=weight is not None, BIAS=bias is not None, BLOCK=BLOCK, num_warps=4)
    return out
