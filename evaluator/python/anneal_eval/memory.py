"""What a kernel may touch on the CPU device, byte by byte, and what it sees where it may not look.

An access outside the tensors of its launch is an IllegalAccess at the access itself, so no guard pages are needed. Lanes
that a mask leaves out are undefined by Triton's definition when no `other` is given: they are NaN and the largest number
in turn here, not the interpreter's 0.

Programs are interpreted one after another, so that an update without its atomic would be right here. What a program reads
and another program of its launch has stored is a Race, unless atomics of both lie between.
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


class Race(Exception):
    """A program read what another program of the same launch had stored, and nothing orders the two."""


class Buffers:
    """The memory of one launch's tensors, and which program stored what."""

    def __init__(self, kernel, arguments):
        """kernel: its name. arguments: values by name, as they were bound."""
        spans = {}
        for name, tensor in tensors_of(arguments.items()):
            storage = tensor.untyped_storage()
            span = storage.data_ptr(), storage.data_ptr() + storage.nbytes()
            first_name, size = spans.get(span, (name, tensor.element_size()))
            spans[span] = first_name, min(size, tensor.element_size())
        ordered = sorted((span, named) for span, named in spans.items() if span[1] > span[0])
        merged = []  # spans that overlap are views of one allocation
        for (begin, end), (name, size) in ordered:
            if merged and begin < merged[-1][1]:
                merged[-1][1], merged[-1][3] = max(merged[-1][1], end), min(merged[-1][3], size)
            else:
                merged.append([begin, end, name, size])
        self.kernel = kernel
        self.names = [one[2] for one in merged]
        self.begins = np.array([one[0] for one in merged], dtype=np.uint64)
        self.ends = np.array([one[1] for one in merged], dtype=np.uint64)
        self.stores = [_Stores(begin, end, size) for begin, end, _, size in merged]
        # The launch in parts: an atomic ends one part of its program and releases it, so that its stores are seen by
        # programs whose own atomic comes later. Part 0 is nobody's.
        self.programs, self.released = [None], [False]
        self.own, self.acquired = 0, False  # the program's first part; whether it has done an atomic

    def next_program(self):
        self.own, self.acquired = len(self.programs), False
        self._next_part()

    def _next_part(self):
        self.programs.append(interpreter.interpreter_builder.grid_idx)
        self.released.append(False)

    def load(self, pointers, mask):
        """Before a load of the lanes that `mask` keeps. Raises IllegalAccess, Race."""
        for index, addresses, _ in self._by_tensor("reads", pointers, mask):
            stores = self.stores[index]
            if stores.parts is None:
                continue
            parts = stores.parts_at(addresses, _size_of(pointers))
            foreign = (parts > 0) & (parts < self.own)
            for part in np.unique(parts[foreign]) if foreign.any() else ():
                if not (self.acquired and self.released[part]):
                    raise Race(f"a data race: program {interpreter.interpreter_builder.grid_idx} of {self.kernel} reads from "
                               f"{self.names[index]} what program {self.programs[part]} of the same launch stored there, and "
                               "no atomic operations order the two")

    def store(self, pointers, value, mask):
        """Before a store of the lanes that `mask` keeps. Raises IllegalAccess; remembers whose the values are."""
        places = self._by_tensor("writes", pointers, mask)
        if not places:
            return
        new = np.ascontiguousarray(value.data)
        old = interpreter._interpreter.load(pointers.data, mask.data, new, new.dtype)
        bits = np.dtype(f"u{new.itemsize}")
        changed = (old.view(bits) != new.view(bits))[mask.data]
        for index, addresses, lanes in places:
            self.stores[index].remember(addresses, _size_of(pointers), changed[lanes], len(self.programs) - 1)

    def atomic(self, pointers, mask):
        """Before an atomic operation. Raises IllegalAccess."""
        self._by_tensor("changes", pointers, mask)
        self.released[-1] = self.acquired = True
        self._next_part()

    def _by_tensor(self, what, pointers, mask):
        """The kept lanes' addresses, [(index of their tensor, addresses, which of the kept lanes)]. Raises IllegalAccess."""
        # The interpreter broadcasts no mask: both have one shape.
        addresses = pointers.data.reshape(-1) if mask is None or mask.data.all() else pointers.data[mask.data]
        if addresses.size == 0:
            return []
        size = np.uint64(_size_of(pointers))
        found = np.searchsorted(self.begins, addresses, side="right") - 1
        inside = found >= 0
        if self.ends.size:
            inside = inside & (addresses <= self.ends[found] - size)
        if not np.all(inside):
            address, index = addresses[~inside][0], found[~inside][0]
            where = f"{int(address) - int(self.ends[index])} bytes past the end of {self.names[index]}" if index >= 0 else \
                "before the beginning of every tensor"
            raise IllegalAccess(f"an illegal memory access: program {interpreter.interpreter_builder.grid_idx} {what} {where}")
        if len(self.names) == 1 or (found == found[0]).all():
            return [(int(found[0]), addresses, slice(None))]
        return [(int(one), addresses[found == one], found == one) for one in np.unique(found)]


class _Stores:
    """Which part of the launch stored each element of one tensor last; 0: none did."""

    MOST_BYTES = 1 << 26  # of a tensor; a larger one is not watched

    def __init__(self, begin, end, size):
        """size: of the smallest element that the memory from begin to end is known to hold, in bytes."""
        self.begin, self.bytes, self.size = np.uint64(begin), end - begin, size
        self.parts = None  # made by the first store: tensors that are only read cost nothing

    def parts_at(self, addresses, size):
        elements = self._elements(addresses, size)  # may cut self.parts
        return self.parts[elements]

    def remember(self, addresses, size, changed, part):
        """A value that was there already is not a new one; it is the storing program's own where any has stored."""
        if self.bytes > self.MOST_BYTES:
            return
        if self.parts is None:
            self.parts = np.zeros(-(-self.bytes // self.size), dtype=np.int32)
        elements = self._elements(addresses, size)
        kept = (self.parts[elements] > 0) | changed.reshape(-1, 1)
        self.parts[elements[kept]] = part

    def _elements(self, addresses, size):
        """(lanes, elements a lane). An access smaller than what was known to be an element cuts all of them."""
        if size < self.size:
            self.parts = np.repeat(self.parts, self.size // size)
            self.size = size
        first = ((addresses - self.begin) // np.uint64(self.size)).astype(np.int64)[:, None]
        return first if size == self.size else first + np.arange(size // self.size)


def _size_of(pointers):
    return max(1, pointers.get_element_ty().primitive_bitwidth // 8)


def tensors_of(items):
    """(name, tensor) of all tensors among (name, argument of a launch)."""
    for name, value in items:
        if isinstance(value, (TensorWrapper, TensorDescriptor)):
            value = value.base
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, tuple):
            yield from tensors_of((name, one) for one in value)


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
        _buffers[0].load(pointers, mask)
        if other is None and not mask.data.all():
            other = _undefined(pointers)
        return load(self, pointers, mask, other, *options, **named)

    def masked_store(self, pointers, value, mask, *options, **named):
        _buffers[0].store(pointers, value, mask)
        return store(self, pointers, value, mask, *options, **named)

    def atomic_rmw(self, operation, pointers, value, mask, *options, **named):
        _buffers[0].atomic(pointers, mask)
        return rmw(self, operation, pointers, value, mask, *options, **named)

    def atomic_cas(self, pointers, *options, **named):
        _buffers[0].atomic(pointers, None)
        return cas(self, pointers, *options, **named)

    InterpreterBuilder.create_masked_load = masked_load
    InterpreterBuilder.create_masked_store = masked_store
    InterpreterBuilder.create_atomic_rmw = atomic_rmw
    InterpreterBuilder.create_atomic_cas = atomic_cas
