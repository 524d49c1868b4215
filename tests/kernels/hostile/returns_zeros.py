# task: mul; expect: other
# A null answer: zeros of the right shape.
import torch


def mul(input, other):
    other = other if isinstance(other, torch.Tensor) else torch.empty(())
    return torch.zeros(torch.broadcast_shapes(input.shape, other.shape), dtype=input.dtype, device=input.device)
