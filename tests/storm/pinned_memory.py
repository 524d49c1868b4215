# task: mul; expect: out_of_memory; devices: cuda
# Takes the host's memory through the driver, which no process's resident size shows.
import torch


def mul(input, other):
    kept = []
    while True:
        kept.append(torch.empty(1 << 30, dtype=torch.uint8, pin_memory=True))
