"""What a kernel may touch on the CPU device, byte by byte, and what it sees where it may not look.

An access outside the tensors of its launch is an IllegalAccess at the access itself, so no guard pages are needed. Lanes
that a mask leaves out are undefined by Triton's definition when no `other` is given: they are NaN and the largest number
in turn here, not the interpreter's 0.
"""

import numpy as np
import torch
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle
from triton.runtime.jit import TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

_BITS = {"bf16": (0x7FC0, 0x7F7F), "fp8e5": (0x7F, 0x7B), "fp8e5b16": (0x80, 0x7F), "fp8e4nv": (0x7F, 0x7E),
         "fp8e4b8": (0x80, 0x7F), "fp8e4b15": (0x7F, 0x7F)}  # NaN and largest number


class IllegalAccess(Exception):
    """A load, store or atomic outside every tensor that the launch was given."""


class Buffers:
    """The memory of one launch's tensors."""

    def __init__(self, arguments):
        """arguments: values by name, as they were bound."""
        spans = {}
        for name, tensor in _tensors(arguments.items()):
            storage = tensor.untyped_storage()
            spans.setdefault((storage.data_ptr(), storage.data_ptr() + storage.nbytes()), name)
        ordered = sorted((span, name) for span, name in spans.items() if span[1] > span[0])
        merged = []  # spans that overlap are views of one allocation
        for (begin, end), name in ordered:
            if merged and begin < merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([begin, end, name])
        self.names = [one[2] for one in merged]
        self.begins = np.array([one[0] for one in merged], dtype=np.uint64)
        self.ends = np.array([one[1] for one in merged], dtype=np.uint64)

    def check(self, what, pointers, mask):
        """Raises IllegalAccess unless every lane of `pointers` that `mask` keeps lies inside one tensor."""
        # The interpreter broadcasts no mask: both have one shape.
        addresses = pointers.data if mask is None or mask.data.all() else pointers.data[mask.data]
        if addresses.size == 0:
            return
        size = np.uint64(max(1, pointers.get_element_ty().primitive_bitwidth // 8))
        found = np.searchsorted(self.begins, addresses, side="right") - 1
        inside = found >= 0
        if self.ends.size:
            inside = inside & (addresses <= self.ends[found] - size)
        if np.all(inside):
            return
        address, index = addresses[~inside].flat[0], found[~inside].flat[0]
        where = f"{int(address) - int(self.ends[index])} bytes past the end of {self.names[index]}" if index >= 0 else \
            "before the beginning of every tensor"
        raise IllegalAccess(f"an illegal memory access: program {interpreter.interpreter_builder.grid_idx} {what} {where}")


def _tensors(items):
    for name, value in items:
        if isinstance(value, (TensorWrapper, TensorDescriptor)):
            value = value.base
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, tuple):
            yield from _tensors((name, one) for one in value)


_buffers = [None]  # of the launch in progress


def launched(buffers):
    """The buffers of the launch that is interpreted now, or None after it."""
    _buffers[0] = buffers


def _undefined(pointers):
    element = pointers.get_element_ty()
    dtype = interpreter._get_np_dtype(element)
    if element.name in _BITS:
        nan, largest = _BITS[element.name]
    elif dtype.kind == "f":
        nan, largest = np.nan, np.finfo(dtype).max
    else:
        nan = largest = True if dtype.kind == "b" else np.iinfo(dtype).max
    values = np.full(pointers.data.shape, nan, dtype=dtype)
    values.reshape(-1)[1::2] = largest
    return TensorHandle(values, element)


def install():
    """Patches the interpreter's builder in this process."""
    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store
    rmw, cas = InterpreterBuilder.create_atomic_rmw, InterpreterBuilder.create_atomic_cas

    def masked_load(self, pointers, mask, other, *options, **named):
        _buffers[0].check("reads", pointers, mask)
        if other is None and not mask.data.all():
            other = _undefined(pointers)
        return load(self, pointers, mask, other, *options, **named)

    def masked_store(self, pointers, value, mask, *options, **named):
        _buffers[0].check("writes", pointers, mask)
        return store(self, pointers, value, mask, *options, **named)

    def atomic_rmw(self, operation, pointers, value, mask, *options, **named):
        _buffers[0].check("changes", pointers, mask)
        return rmw(self, operation, pointers, value, mask, *options, **named)

    def atomic_cas(self, pointers, *options, **named):
        _buffers[0].check("changes", pointers, None)
        return cas(self, pointers, *options, **named)

    InterpreterBuilder.create_masked_load = masked_load
    InterpreterBuilder.create_masked_store = masked_store
    InterpreterBuilder.create_atomic_rmw = atomic_rmw
    InterpreterBuilder.create_atomic_cas = atomic_cas
