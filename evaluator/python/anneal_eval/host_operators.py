"""Which torch operators an entry runs on the host's behalf, and on how much: torch compute in a kernel's place.

Allocation, views and plain copies are what a launch needs and are not counted. Of everything else the elements of the
largest tensor that it reads or writes are added up by operator, for the judge to weigh against the sizes of the call;
those that put tensors together too, which count where the task's operator itself only moves values.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from anneal_eval.seal import Seal, tensors_in

_FRESH = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
_ALLOCATION = _FRESH | {
    "new_zeros", "new_ones", "new_full", "zeros",
    "zeros_like", "ones", "ones_like", "full", "full_like", "scalar_tensor", "arange", "fill_", "zero_",
}
_MOVES = {"clone", "copy_", "_to_copy", "contiguous", "_unsafe_view", "resize_", "set_", "record_stream", "is_pinned", "_pin_memory",
          "unbind", "split", "split_with_sizes"}
_PART = "copy_ into a part"  # of a tensor; evaluator/daemon/suite_task.cpp names these and cat, stack, constant_pad_nd too
_MOST_NAMES = 64
# As they are now: a candidate could put others in their place.
_numel, _element_size, _storage = torch.Tensor.numel, torch.Tensor.element_size, torch.Tensor.untyped_storage


class HostOperators(TorchDispatchMode):
    """Records while it is active. `paused`: work of ours (the interpreter's) is not the candidate's.

    poisoned: fresh memory is filled with NaN (the largest number, for integers), so that what nobody writes shows.
    seal: operators that are seen here run on true values in a sealed call.
    item_bytes: of a number of the call. A larger one that is read may hold several.
    """

    def __init__(self):
        super().__init__()
        self.elements = {}  # operator -> elements of the largest tensors of its calls, summed
        self.paused = False
        self.poisoned = False
        self.seal = Seal()
        self.item_bytes = 16

    def report(self):
        """`elements` of the operators with the most, and of the rest together."""
        ordered = sorted(self.elements.items(), key=lambda one: -one[1])
        rest = sum(count for _, count in ordered[_MOST_NAMES:])
        return {**dict(ordered[:_MOST_NAMES]), **({"other operators": rest} if rest else {})}

    def watch_exports(self):
        """Counts tensors that leave for numpy, Python lists, functions or text, which no operator shows.

        What comes back from there as torch.tensor(list) is an operator, lift_fresh.
        """
        for name in ("__array__", "numpy"):
            setattr(torch.Tensor, name, self._counted(name, self._exported(getattr(torch.Tensor, name)), _numel))
        for name in ("tolist", "apply_", "map_", "map2_"):
            setattr(torch.Tensor, name, self._counted(name, getattr(torch.Tensor, name), _numel))
        for name in ("__repr__", "__format__"):
            setattr(torch.Tensor, name, self._counted(name, getattr(torch.Tensor, name), _printed_elements))

    def _exported(self, method):
        # Of a sealed tensor what leaves is a copy: the array would be over decoys once this is over.
        return lambda *args, **kwargs: method(*args, **kwargs).copy() if self.seal.active else method(*args, **kwargs)

    def _counted(self, name, method, count):
        def counted(tensor, *args, **kwargs):
            if not self.paused:
                self.elements[name] = self.elements.get(name, 0) + count(tensor)
            return self.seal.operator(method, (tensor, *args), kwargs)

        return counted

    def unpaused(self, function):
        def watched(*args, **kwargs):
            before, self.paused = self.paused, False
            try:
                return function(*args, **kwargs)
            finally:
                self.paused = before

        return watched

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if torch.is_inference_mode_enabled():  # there operators that are made of others come whole
            with self:
                result = func.decompose(*args, **(kwargs or {}))
            if result is not NotImplemented:
                return result
        name = func.overloadpacket.__name__
        if _is_view(func):
            result = func(*args, **(kwargs or {}))
        else:
            result = self.seal.operator(self._run, (func, *args), kwargs or {})
        if not self.paused:
            self._note(name, func, args, kwargs or {}, result)
        return result

    def _run(self, func, *args, **kwargs):
        result = func(*args, **kwargs)
        if self.poisoned and func.overloadpacket.__name__ in _FRESH:
            _poison(result)
        return result

    def _note(self, name, func, args, kwargs, result):
        to_host = name in ("_to_copy", "copy_") and self._leaves_the_device(args, result)
        # Another namespace's operator of the same name may do anything.
        known = func.namespace == "aten" and (name in _ALLOCATION or name in _MOVES or _is_view(func))
        into_part = known and name == "copy_" and _numel(args[0]) * _element_size(args[0]) < _storage(args[0]).nbytes()
        if known and not to_host and not into_part:
            return
        size = max((_numel(t) for t in tensors_in((args, tuple(kwargs.values()), result))), default=0)
        if name == "_local_scalar_dense":
            size *= max(1, _element_size(args[0]) // self.item_bytes)
        key = f"{name} to the host" if to_host else _PART if into_part else name
        self.elements[key] = self.elements.get(key, 0) + size

    @staticmethod
    def _leaves_the_device(args, result):
        if args and isinstance(args[0], torch.Tensor) and isinstance(result, torch.Tensor):
            source = args[1] if len(args) > 1 and isinstance(args[1], torch.Tensor) else args[0]
            return source.is_cuda and not result.is_cuda
        return False


def _is_view(func):
    return func.namespace == "aten" and getattr(func, "is_view", False)


def _printed_elements(tensor):
    """A large tensor is printed as its edges."""
    shown, count = torch._tensor_str.PRINT_OPTS, _numel(tensor)
    return count if count <= shown.threshold else min(count, (2 * shown.edgeitems) ** tensor.dim())


def _poison(tensor):
    if tensor.is_floating_point() or tensor.is_complex():
        tensor.fill_(float("nan"))
    elif tensor.dtype == torch.bool:
        tensor.fill_(True)
    else:
        tensor.fill_(torch.iinfo(tensor.dtype).max)
