# task: mul; expect: timeout
# Sleeps past its deadline.
import time


def mul(input, other):
    time.sleep(100_000)
