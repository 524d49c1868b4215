"""Which torch operators an entry runs on the host's behalf, and on how much: torch compute in a kernel's place.

Allocation, views and plain copies are what a launch needs and are not counted. Of everything else the largest tensor
that it reads or writes is noted, for the judge to weigh against the sizes of the call.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_ALLOCATION = {
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full", "zeros",
    "zeros_like", "ones", "ones_like", "full", "full_like", "scalar_tensor", "arange", "fill_", "zero_", "lift_fresh",
}
_MOVES = {"clone", "copy_", "_to_copy", "contiguous", "_unsafe_view", "cat", "stack", "constant_pad_nd", "resize_", "set_",
          "record_stream", "_local_scalar_dense", "is_pinned", "_pin_memory", "unbind", "split", "split_with_sizes"}


class HostOperators(TorchDispatchMode):
    """Records while it is active. `paused`: work of ours (the interpreter's) is not the candidate's."""

    def __init__(self):
        super().__init__()
        self.largest = {}  # operator -> numel
        self.paused = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if not self.paused:
            self._note(func, args, kwargs or {}, result)
        return result

    def _note(self, func, args, kwargs, result):
        name = func.overloadpacket.__name__
        to_host = name in ("_to_copy", "copy_") and self._leaves_the_device(args, result)
        if not to_host and (name in _ALLOCATION or name in _MOVES or getattr(func, "is_view", False)):
            return
        size = max((t.numel() for t in _tensors((args, tuple(kwargs.values()), result))), default=0)
        key = f"{name} to the host" if to_host else name
        self.largest[key] = max(self.largest.get(key, 0), size)

    @staticmethod
    def _leaves_the_device(args, result):
        if args and isinstance(args[0], torch.Tensor) and isinstance(result, torch.Tensor):
            source = args[1] if len(args) > 1 and isinstance(args[1], torch.Tensor) else args[0]
            return source.is_cuda and not result.is_cuda
        return False


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _tensors(one)
