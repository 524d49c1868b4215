# task: mul; expect: out_of_memory; devices: cuda
# Takes the GPU's memory piece by piece and keeps it.
import torch


def mul(input, other):
    kept = []
    while True:
        kept.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))
