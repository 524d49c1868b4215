# task: mul; expect: out_of_memory; devices: cuda
# Nearly all of the GPU's memory in one piece, before the first call.
import torch

_kept = torch.empty(int(0.9 * torch.cuda.get_device_properties(0).total_memory), dtype=torch.uint8, device="cuda")


def mul(input, other):
    return input * other
