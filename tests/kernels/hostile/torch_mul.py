# task: mul; expect: not_a_kernel
# Policy: torch does the work (values are right).
import torch


def mul(input, other):
    return torch.mul(input, other)
