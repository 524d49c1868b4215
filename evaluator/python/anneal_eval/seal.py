"""Shows code that nobody watches other values than those which kernels compute with.

While a call is sealed, the memory of its inputs, of what its kernels wrote and of what torch's operators returned holds
decoys: its own values in other places and of another scale. The true values are there only while a kernel runs, and of
the tensors that it reads and writes, while an operator runs that HostOperators sees. Host code that computes by any
other way (numpy on an address, a library's threads, operators where dispatch modes are off) computes with decoys, and
what it writes is lost.
"""

import contextlib

import torch
from torch.utils._python_dispatch import _disable_current_modes

_storage = torch.Tensor.untyped_storage
_SCALED = {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128}


class _Sealed:
    """One allocation: its memory as a flat tensor, and the true values while decoys are in it."""

    def __init__(self, tensor):
        """tensor: any over the allocation; its type says what decoys are."""
        storage = _storage(tensor)
        scaled = tensor.dtype in _SCALED and storage.nbytes() % tensor.element_size() == 0
        flat = torch.empty(0, dtype=tensor.dtype if scaled else torch.uint8, device=storage.device)
        self.memory = flat.set_(storage, 0, (storage.nbytes() // flat.element_size(),), (1,))
        self.true = None
        self._step = 1 if scaled else tensor.element_size()

    def close(self):
        if self.true is not None:
            return
        self.true = self.memory.clone()
        places = self.memory.numel() // self._step
        shift = int(torch.randint(1, places, (), generator=_random)) if places > 1 else 0
        decoys = self.true.roll(shift * self._step)
        if decoys.dtype in _SCALED:
            decoys *= 0.6 + 0.3 * float(torch.rand((), generator=_random))
        self.memory.copy_(decoys)

    def open(self):
        if self.true is not None:
            self.memory.copy_(self.true)
            self.true = None


_random = torch.Generator()
_random.seed()


class Seal:
    def __init__(self):
        self.active = False
        self._all = {}  # by (address, bytes); what is here stays allocated until the call ends
        self._open = False  # all of it: a kernel runs
        self._inside = False  # an operator, which may call others

    @contextlib.contextmanager
    def call(self, tensors):
        """Around one call of the entry with `tensors`."""
        self.active = True
        self._shut(tensors)
        try:
            yield
        finally:
            with _disable_current_modes():
                for one in self._all.values():
                    one.open()
            _wait(self._all.values())
            self._all.clear()
            self.active = self._open = False

    @contextlib.contextmanager
    def kernel(self, tensors):
        """Around one launch that is given `tensors`."""
        if not self.active or self._open:
            yield
            return
        self._switch(True)
        try:
            yield
        finally:
            with _disable_current_modes():
                self._add(tensors)
            self._switch(False)

    def shut_during(self, function):
        """`function`, the candidate's own (a grid that Triton calls within a launch), as one that sees decoys."""

        def shut(*args):
            if not self.active or not self._open:
                return function(*args)
            self._switch(False)
            try:
                return function(*args)
            finally:
                self._switch(True)

        return shut

    def operator(self, function, args, kwargs, tensors):
        """function(*args, **kwargs), an operator or a method of a tensor, run on true values.

        tensors(value): those in the arguments, or in the result."""
        if not self.active or self._open or self._inside:
            return function(*args, **kwargs)
        given = list(tensors((args, tuple(kwargs.values()))))
        touched = [self._all.pop(_span(one)) for one in given if _span(one) in self._all]
        with _disable_current_modes():
            for one in touched:
                one.open()
        result, self._inside = None, True
        try:
            result = function(*args, **kwargs)
            return result
        finally:
            self._inside = False
            # Under its address and size of now: it may have been resized.
            self._shut([*(one.memory for one in touched), *given, *tensors(result)])

    def _shut(self, tensors):
        with _disable_current_modes():
            for one in self._add(tensors):
                one.close()

    def _add(self, tensors):
        found = []
        for tensor in tensors:
            span = _span(tensor)
            if span is not None and span not in self._all:
                self._all[span] = _Sealed(tensor)
            if span is not None:
                found.append(self._all[span])
        return found

    def _switch(self, to_open):
        # Kernels may work on any stream of the candidate's.
        with _disable_current_modes():
            _wait(self._all.values())
            for one in self._all.values():
                one.open() if to_open else one.close()
            _wait(self._all.values())
        self._open = to_open


def _span(tensor):
    """(address, bytes) of the tensor's storage; None without memory."""
    if tensor.layout is not torch.strided or tensor.is_meta:
        return None
    storage = _storage(tensor)
    return (storage.data_ptr(), storage.nbytes()) if storage.nbytes() > 0 else None


def _wait(sealed):
    if any(one.memory.is_cuda for one in sealed):
        torch.cuda.synchronize()
