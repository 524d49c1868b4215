"""Shows code that nobody watches other values than those which kernels compute with.

While a call is sealed, the memory of its inputs, of what its kernels wrote and of what torch's operators returned holds
decoys: its own values in other places, and not quite the same ones. The true values are there only while a kernel runs,
and of the tensors that it reads and writes, while an operator runs that HostOperators sees. Host code that computes by any
other way (numpy on an address, a library's threads, operators where dispatch modes are off) computes with decoys, and
what it writes there is lost.
"""

import contextlib
import random

import torch
from torch.utils._python_dispatch import _disable_current_modes

# As they are now: a candidate could put others in their place.
_storage, _use_count = torch.Tensor.untyped_storage, torch._C._storage_Use_Count
_ONLY_OURS = 2  # users of a storage: `_Sealed.memory`, and the object that asks
_SCALED = {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128}
_random = random.SystemRandom()


class _Sealed:
    """One allocation: its memory as a flat tensor, and the true values while decoys are in it."""

    def __init__(self, tensor):
        """tensor: any over the allocation; its type says what decoys are."""
        storage, self.span = _storage(tensor), _span(tensor)
        scaled = tensor.dtype in _SCALED and storage.nbytes() % tensor.element_size() == 0
        flat = torch.empty(0, dtype=tensor.dtype if scaled else torch.uint8, device=storage.device)
        self.memory = flat.set_(storage, 0, (storage.nbytes() // flat.element_size(),), (1,))
        self.true = None
        self._step = 1 if scaled else tensor.element_size()

    def close(self):
        if self.true is None:
            true = self.memory.clone()
            self.memory.copy_(self._decoys(true))
            self.true = true

    def _decoys(self, true):
        count = true.numel() // self._step
        decoys = true.roll(_random.randrange(1, count) * self._step) if count > 1 else true.clone()
        if decoys.dtype in _SCALED:
            return decoys.mul_(_random.uniform(0.6, 0.9))
        elements = decoys[:count * self._step].view(count, self._step)
        elements[::3] = elements[_random.randrange(count)].clone()  # or their sum would be the true one
        return decoys

    def open(self):
        if self.true is not None:
            self.memory.copy_(self.true)
            self.true = None

    def is_garbage(self):
        return _use_count(_storage(self.memory)._cdata) <= _ONLY_OURS


class Seal:
    def __init__(self):
        self.active = False
        self._all = {}  # by (address, bytes); what is here stays allocated until the next kernel or the call's end
        self._most = 64  # before it is looked through for what nobody uses any more
        self._open = False  # all of it: a kernel runs
        self._inside = False  # an operator, which may call others

    @contextlib.contextmanager
    def call(self, tensors):
        """Around one call of the entry with `tensors`."""
        self.active = True
        try:
            with _unwatched():
                for one in self._of(tensors):
                    one.close()
            yield
        finally:
            try:
                with _unwatched():
                    for one in self._all.values():
                        one.open()
            finally:
                self._all.clear()
                self.active = self._open = self._inside = False

    @contextlib.contextmanager
    def kernel(self, tensors):
        """Around one launch that is given `tensors`."""
        if not self.active or self._open:
            yield
            return
        with _unwatched():
            self._forget_garbage()
            self._switch(True)
        try:
            yield
        finally:
            with _unwatched():
                self._of(tensors)
                self._switch(False)

    def operator(self, function, args, kwargs):
        """function(*args, **kwargs), an operator or a method of a tensor, run on true values."""
        if not self.active or self._open or self._inside:
            return function(*args, **kwargs)
        given = list(tensors_in((args, tuple(kwargs.values()))))
        with _unwatched():
            touched = self._of(given)
            for one in touched:
                one.open()
        result, self._inside = None, True
        try:
            result = function(*args, **kwargs)
            return result
        finally:
            self._inside = False
            with _unwatched():
                for one in touched:
                    if _span(one.memory) != one.span:  # it was resized
                        self._all.pop(one.span, None)
                for one in [*self._of([*given, *tensors_in(result)]), *touched]:
                    one.close()

    def _of(self, tensors):
        """The allocations of `tensors`, each once; a new one is added. Tensors over parts of one allocation share it."""
        found = {}
        for tensor in tensors:
            span = _span(tensor)
            if span is None:
                continue
            if span not in self._all:
                begin, end = span[0], span[0] + span[1]
                over = [one for (at, size), one in self._all.items() if at < end and begin < at + size]
                if over:
                    found.update((id(one), one) for one in over)
                    continue
                self._all[span] = _Sealed(tensor)
                if len(self._all) > self._most:
                    self._forget_garbage()
                    self._most = 64 + 2 * len(self._all)
            found[id(self._all[span])] = self._all[span]
        return list(found.values())

    def _forget_garbage(self):
        self._all = {span: one for span, one in self._all.items() if not one.is_garbage()}

    def _switch(self, to_open):
        for one in self._all.values():
            one.open() if to_open else one.close()
        self._open = to_open


@contextlib.contextmanager
def _unwatched():
    """Work of the seal's own: no operators of the candidate's, and in no mode that it may be in."""
    with _disable_current_modes(), torch.inference_mode(False), torch.no_grad():
        yield


def _span(tensor):
    """(address, bytes) of the tensor's storage; None without memory."""
    if tensor.layout is not torch.strided or tensor.is_meta:
        return None
    storage = _storage(tensor)
    return (storage.data_ptr(), storage.nbytes()) if storage.nbytes() > 0 else None


def tensors_in(value):
    """All tensors in an operator's arguments, or in its result."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from tensors_in(one)
