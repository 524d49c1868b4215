# task: mul; expect: runtime_error; devices: cpu
# Fills files that lie in memory and that nothing maps; the system call that makes them is refused.
import os
import time


def mul(input, other):
    piece = bytes(16 << 20)
    for number in range(64):
        file = os.memfd_create(str(number))
        for _ in range(63):
            os.write(file, piece)
    time.sleep(1000)
