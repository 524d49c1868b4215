# task: mul; expect: timeout
# Forks without end; every process spins.
import os


def mul(input, other):
    while True:
        try:
            os.fork()
        except OSError:
            pass
