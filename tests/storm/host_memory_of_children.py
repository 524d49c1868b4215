# task: mul; expect: out_of_memory
# Takes the host's memory in many processes, each of them below any limit of its own.
import os
import time


def mul(input, other):
    for _ in range(40):
        if os.fork() == 0:
            kept = bytearray(b"x" * (1 << 30))
            time.sleep(1000)
    time.sleep(1000)
