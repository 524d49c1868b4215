# task: fused_add_gelu; expect: ok
# A number becomes a tensor, expanded by strides.
import torch
import triton
import triton.language as tl


@triton.jit
def add_gelu_kernel(x_ptr, y_ptr, number, alpha, out_ptr, n, TENSOR: tl.constexpr, TANH: tl.constexpr,
                    BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    if TENSOR:
        z = x + alpha * tl.load(y_ptr + offsets, mask=mask, other=0.0)
    else:
        z = x + alpha * number
    if TANH:
        out = z * tl.sigmoid(1.5957691216057308 * (z + 0.044715 * z * z * z))
    else:
        out = 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476))
    tl.store(out_ptr + offsets, out, mask=mask)


def honest(input, other, alpha=1, approximate="none"):
    tensor = isinstance(other, torch.Tensor)
    if tensor:
        x, y = torch.broadcast_tensors(input, other)
        x, y = x.contiguous(), y.contiguous()
    else:
        x = y = input.contiguous()
    out = torch.empty_like(x)
    BLOCK = 1024
    add_gelu_kernel[(triton.cdiv(x.numel(), BLOCK),)](
        x, y, 0.0 if tensor else float(other), float(alpha), out, x.numel(), TENSOR=tensor,
        TANH=approximate == "tanh", BLOCK=BLOCK, num_warps=4)
    return out


def fused_add_gelu(input, other, alpha=1, approximate="none"):
    if not isinstance(other, torch.Tensor):
        other = torch.tensor(float(other), device=input.device).expand(input.shape)
    return honest(input, other, alpha, approximate)
