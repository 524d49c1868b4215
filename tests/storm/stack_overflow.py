# task: mul; expect: crashed
# Overflows the C stack.
import sys


class Endless:
    def __getattr__(self, name):
        return getattr(self, name)


def mul(input, other):
    sys.setrecursionlimit(1 << 30)
    return Endless().anything
