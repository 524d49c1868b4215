"""Inputs of tasks as pure data: a case names tensors by shape, dtype and distribution, and the judge draws them.

A task's `cases(make)` yields `make.case(name, arg=spec, ...)`. Nothing is drawn while it runs, so listing cases costs
nothing, and an input depends on (suite, task, case, argument, draw, kind of input) alone, never on how often or in which
order anybody drew.
"""

import hashlib
import math

import torch

OUTLIER_PROBABILITY = 0.001  # of each element, as KernelBench-X draws
OUTLIER_SCALE = 10.0
# Two more elements a tensor, one anywhere and the last one, are outliers for sure, OUTLIER_SCALE times the distribution's
# RMS farther out than their scaled-up draws, which may well be small. The last one, because a kernel that drops a partial
# block drops it: where only the largest value tells (a maximum, a range), any other place would show that by chance only.


class Spec:
    """One tensor to be drawn. `.shape`, `.dtype` and `.numel` are known before it is."""

    def __init__(self, shape, dtype, draw, rms=None, maps=()):
        """rms: of the distribution; None where a bounded domain must have no outliers."""
        self._shape, self._dtype, self._draw, self._rms, self._maps = tuple(shape), dtype, draw, rms, maps
        self._meta = None

    def map(self, function):
        """A spec whose tensor is function(tensor): a transpose, a softmax, a symmetric matrix."""
        return Spec(self._shape, self._dtype, self._draw, self._rms, self._maps + (function,))

    def unaligned(self):
        """A spec of the same elements whose first one lies one element behind a multiple of 16 bytes, as that of x[1:]."""
        return self.map(lambda tensor: torch.cat([tensor.new_zeros(1), tensor.reshape(-1)])[1:].view(tensor.shape))

    def _described(self):
        if self._meta is None:
            if not self._maps:
                self._meta = torch.empty(self._shape, dtype=self._dtype, device="meta")
            else:
                self._meta = self.materialise(0, "standard", "cpu").to("meta")
        return self._meta

    @property
    def shape(self):
        return tuple(self._described().shape)

    @property
    def dtype(self):
        return self._described().dtype

    @property
    def numel(self):
        return math.prod(self.shape)

    @property
    def has_outliers(self):
        return self._rms is not None and self.numel > 0

    @property
    def itemsize(self):
        return self.dtype.itemsize

    def materialise(self, seed, inputs, device):
        """The tensor on `device`. inputs: "standard", "outlier" (some elements replaced by a scaled-up draw), "perf"."""
        generator = torch.Generator(device=device)
        generator.manual_seed(seed)
        tensor = self._draw(self._shape, generator, device)
        if inputs == "outlier" and self._rms is not None and tensor.numel() > 0:
            hit = torch.rand(self._shape, generator=generator, device=device) < OUTLIER_PROBABILITY
            anywhere = torch.randint(tensor.numel(), (1,), generator=generator, device=device)
            sure = torch.cat([anywhere, torch.full_like(anywhere, tensor.numel() - 1)])
            scaled = self._draw(self._shape, generator, device) * OUTLIER_SCALE
            loud = scaled + torch.copysign(torch.full_like(scaled, OUTLIER_SCALE * self._rms), scaled)
            tensor = torch.where(hit, scaled, tensor)
            tensor.view(-1)[sure] = loud.view(-1)[sure]
        tensor = tensor.to(self._dtype)
        for function in self._maps:
            tensor = function(tensor)
        return tensor


class Case:
    """One call of the entry: `inputs` maps argument names, in signature order, to specs or plain values."""

    def __init__(self, name, inputs, held_out=False):
        self.name, self.inputs, self.held_out = name, inputs, held_out


class Make:
    """What `cases` and `perf_cases` get. `dtype` is the dtype of the task's form, `precision` its name."""

    DTYPES = {
        "fp64": torch.float64, "fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16,
        "int8": torch.int8, "w8a8": torch.float16, "w4a16": torch.float16,
    }

    def __init__(self, precision):
        self.precision = precision
        self.dtype = self.DTYPES[precision]

    def case(self, name, **inputs):
        return Case(name, inputs)

    def held_out(self, name, **inputs):
        """A case that is judged and never told to a model: a kernel right on the others and wrong here is `overfit`."""
        return Case(name, inputs, held_out=True)

    def normal(self, *shape, dtype=None, mean=0.0, std=1.0):
        def draw(size, generator, device):
            return torch.randn(size, generator=generator, device=device) * std + mean

        return Spec(shape, dtype or self.dtype, draw, rms=math.hypot(mean, std))

    def uniform(self, *shape, lo=0.0, hi=1.0, dtype=None):
        def draw(size, generator, device):
            return torch.rand(size, generator=generator, device=device) * (hi - lo) + lo

        # A bounded domain (probabilities, say) must stay bounded: no outliers.
        return Spec(shape, dtype or self.dtype, draw)

    def integers(self, *shape, lo, hi, dtype=torch.int64):
        """lo <= value < hi."""

        def draw(size, generator, device):
            return torch.randint(lo, hi, size, generator=generator, device=device)

        return Spec(shape, dtype, draw)

    def permutation(self, n):
        def draw(size, generator, device):
            return torch.randperm(n, generator=generator, device=device)

        return Spec((n,), torch.int64, draw)


def input_seed(suite, task, case, argument, draw, inputs):
    """The 63-bit seed of one input tensor."""
    text = "\x1f".join((suite, task, case, argument, draw, inputs))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1
