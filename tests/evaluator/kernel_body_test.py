"""What a kernel's body may say on the CPU device. Run by ctest with the Python of anneal-evald."""
import collections
import enum
import importlib.util
import os
import sys
import tempfile
import typing
import unittest

import numpy as np
import torch
import triton
import triton.language as tl

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "evaluator", "python"))

from anneal_eval import kernel_body, memory  # noqa: E402
from anneal_eval.kernel_body import Body, HostCode, UnsupportedOnCpu  # noqa: E402

HEAD = "import math\nimport torch\nimport triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n" \
       "ONE = tl.constexpr(1)\ndata = torch.ones(1)\ndef host(x): return x\n" \
       "host_class = type('A', (), {'__module__': 'triton.language.core', '__qualname__': 'tensor'})\n" \
       "@triton.jit\ndef helper(x):\n    return x\n\n@triton.jit\ndef kernel(x, n, B: tl.constexpr, F: tl.constexpr = None):\n"

REFUSED = """
host(x)
torch.exp(x)
data.sum()
x = data
host_class(x)
tl.core.builtins.exec("")
x.handle
x.__class__
helper.fn(x)
F.fn(x)
x._value
"{0.handle}".format(x)
(lambda: x)()
{1: x}
{1, 2}
(y := x)
import math
from math import exp
global data
del x
x.y = 1
x[0] = 1
yield x
type(x)
globals()
eval("x")
try:\n        pass\n    except Exception: pass
def g(): pass
class A: pass
if B < 0:\n        host(x)
return host(x)
[host(i) for i in (1, 2)]
f"{host(x)}"
"""
LEFT = """
isinstance(x, tl.constexpr)
hasattr(x, "value")
getattr(x, "handle")
x is n
if B < 0:\n        raise n
with tl.thing(): pass
[i for i in (1, 2) if i]
tl.where(n, x, n)(x)
"""
ALLOWED = """
helper(x)
F(x)
y: tl.constexpr = B * 2
y: host = B
if F is not None:\n        F(x)
for i in range(0, n, B):\n        x += i
for i in tl.static_range(2):\n        x += i
while n > 0:\n        n -= 1
math.log2(B)
x = float("-inf") + math.pi + ONE
tl.store(x + tl.arange(0, B), tl.load(x, mask=n < B, other=0).to(tl.float32))
tl.math.exp(x)
libdevice.tanh(x)
tl.reduce(x, 0, helper)
x[:, None] * x[None, :]
a, b = x, n
tl.static_assert(B > 0, "B")
tl.device_print("x", x)
print("x", x)
assert n > 0, "n"
return
y = x if B > 1 else n
not n and (x or n)
max(min(n, B), 1)
triton.cdiv(B, 2)
[i + 1 for i in (1, 2)]
x.type.element_ty
"""


Plain = collections.namedtuple("Plain", "a b")


class Annotated(typing.NamedTuple):
    a: int
    b: int = 2


class WithProperty(typing.NamedTuple):
    a: int

    @property
    def size(self):
        return 2


class OwnNew(tuple):
    __slots__, _fields = (), ("a",)

    def __new__(_cls, a):
        return _tuple_new(_cls, (a,))


def _tuple_new(kind, values):
    return tuple.__new__(kind, values)


class Below(Plain):
    __slots__ = ()


Defaults = collections.namedtuple("Defaults", "a", defaults=[object()])
Member = enum.Enum("Member", {"ONE": torch.exp})
Number = enum.IntEnum("Number", {"ONE": 1})  # its .value is itself to the compiler
DtypeBelow = type("DtypeBelow", (tl.dtype,), {})
Integer = type("Integer", (int,), {})
Subclass = type("Subclass", (torch.Tensor,), {})
FunctionBelow = type("FunctionBelow", (triton.runtime.jit.JITFunction,), {})


class Pointer:
    """What triton.reinterpret takes for a tensor."""
    data = device = None
    shape, dtype = (1,), torch.float16

    def data_ptr(self):
        return 0


def kernels(lines):
    for line in lines.strip().splitlines():
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(HEAD + "    " + line.replace("\\n", "\n") + "\n")
            file.flush()
            spec = importlib.util.spec_from_file_location("candidate", file.name)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            yield line, module


class KernelBody(unittest.TestCase):
    def test_refuses_the_hosts_code(self):
        for line, module in kernels(REFUSED.replace("\n        ", "\\n        ").replace("\n    except", "\\n    except")):
            with self.subTest(line), self.assertRaises(HostCode):
                Body(module.kernel)

    def test_leaves_what_only_the_compiler_can_answer(self):
        for line, module in kernels(LEFT.replace("\n        ", "\\n        ")):
            with self.subTest(line), self.assertRaises(UnsupportedOnCpu):
                Body(module.kernel)

    def test_accepts_the_language(self):
        for line, module in kernels(ALLOWED.replace("\n        ", "\\n        ")):
            with self.subTest(line):
                Body(module.kernel)

    def test_a_rebound_name_is_refused(self):
        for line, module in kernels("helper(x) + ONE"):
            body = kernel_body.body_of(module.kernel)
            module.ONE = tl.constexpr(1)
            body.check_unchanged()
            module.helper = module.kernel
            self.assertRaises(HostCode, body.check_unchanged)

    def test_arguments_are_data(self):
        for line, module in kernels("F(x)"):
            for value in (None, 1, 2.0, True, "s", tl.float32, torch.float32, module.helper, (1, module.helper), Plain(1, 2),
                          Annotated(1), tl.constexpr(Plain)):
                kernel_body.check(module.kernel, {"F": value})
            for value in (torch.ones(1), torch.nn.Parameter(torch.ones(1)), Plain(torch.ones(1), 2), (torch.ones(1), 1),
                          triton.reinterpret(torch.ones(1), tl.float16),
                          triton.tools.tensor_descriptor.TensorDescriptor.from_tensor(torch.ones(4, 4), [4, 4])):
                kernel_body.check(module.kernel, {"x": value})
                with self.assertRaises(UnsupportedOnCpu):  # torch would compute with it
                    kernel_body.check(module.kernel, {"F": value})
            for value in (module.host, torch.exp, lambda: 0, print):
                self.assertRaises(HostCode, kernel_body.check, module.kernel, {"F": value})
            self.assertRaises(UnsupportedOnCpu, kernel_body.check, module.kernel, {"F": object()})

    def test_no_argument_brings_code(self):
        named = tl.dtype("fp32")
        named.computes = torch.exp
        constant = tl.constexpr(1)
        constant.computes = torch.exp
        shadowed = torch.ones(1)
        shadowed.data_ptr = shadowed.sum
        descriptor = triton.tools.tensor_descriptor.TensorDescriptor.from_tensor(torch.ones(4, 4), [4, 4])
        descriptor.base = Pointer()
        for line, module in kernels("F(helper(x))"):
            for value in (WithProperty(1), OwnNew(1), Defaults(), tuple.__new__(Below, (1, 2)), Member.ONE, Number.ONE, named,
                          [1], tl.tuple([1]), DtypeBelow("fp32"), tl.pointer_type(DtypeBelow("fp32")), Integer(1), shadowed,
                          shadowed.as_subclass(Subclass), triton.reinterpret(Pointer(), tl.float32), descriptor,
                          (1, WithProperty(1))):
                for name in ("x", "F"):
                    with self.subTest(type(value).__name__), self.assertRaises(UnsupportedOnCpu):
                        kernel_body.check(module.kernel, {name: value})
            for value in (WithProperty, OwnNew, Defaults, Member, constant):  # made, or read, in the kernel
                with self.assertRaises(HostCode):
                    kernel_body.check(module.kernel, {"F": value})
            below = FunctionBelow(module.helper.fn)
            self.assertRaises(HostCode, kernel_body.check, module.kernel, {"F": below})
            self.assertRaises(HostCode, kernel_body.check, below, {})
            module.helper = below
            self.assertRaises(HostCode, kernel_body.check, module.kernel, {})

    def test_accepts_tritons_own_functions(self):
        checked = 0
        for module in (tl.standard, tl.random):
            for value in vars(module).values():
                if isinstance(value, triton.runtime.jit.JITFunction):
                    Body(value)
                    checked += 1
        self.assertGreater(checked, 30)


class Launch:
    """Accesses of programs to one tensor of eight zeros, as the interpreter would make them."""

    def __init__(self, dtype=torch.float32):
        self.tensor = torch.zeros(8, dtype=dtype)
        self.buffers = memory.Buffers("kernel", {"x": self.tensor, "n": 3})

    def program(self, number):
        memory.interpreter.interpreter_builder.grid_idx = (number, 0, 0)
        self.buffers.next_program()

    def load(self, elements, kept=None, size=4):
        self.buffers.load(*self._at(elements, kept, size))

    def store(self, elements, values, kept=None):
        pointers, mask = self._at(elements, kept, 4)
        self.buffers.store(pointers, memory.TensorHandle(np.array(values, dtype=np.float32), tl.float32), mask)
        for element, value, one in zip(elements, values, mask.data):
            if one:
                self.tensor[element] = value

    def atomic(self, element):
        self.buffers.atomic(*self._at([element], None, 4))

    def _at(self, elements, kept, size):
        at = np.array([self.tensor.data_ptr() + size * one for one in elements], dtype=np.uint64)
        kept = np.ones(len(elements), dtype=bool) if kept is None else np.array(kept, dtype=bool)
        kind = {1: tl.int8, 4: tl.float32, 8: tl.float64}[size]
        return memory.TensorHandle(at, tl.pointer_type(kind)), memory.TensorHandle(kept, tl.int1)


class Memory(unittest.TestCase):
    def test_every_lane_lies_in_a_tensor_of_the_launch(self):
        launch = Launch()
        launch.program(0)
        for elements, kept, legal in (([0, 7], [1, 1], True), ([-1, 0], [1, 1], False), ([7, 8], [1, 1], False),
                                      ([7, 8], [1, 0], True), ([9], [0], True)):
            with self.subTest(elements):
                if legal:
                    launch.load(elements, kept)
                else:
                    self.assertRaises(memory.IllegalAccess, launch.load, elements, kept)

    def test_an_update_without_its_atomic_is_a_race(self):
        launch = Launch()
        launch.program(0)
        launch.load([0])
        launch.store([0], [1.0])
        launch.load([0])
        launch.program(3)
        launch.load([1])
        with self.assertRaisesRegex(memory.Race, r"\(3, 0, 0\) of kernel reads from x what program \(0, 0, 0\)"):
            launch.load([0])

    def test_what_a_program_stored_itself_is_its_own(self):
        launch = Launch()
        for number in range(2):  # both store the same number and read it back
            launch.program(number)
            launch.store([2], [5.0])
            launch.load([2])
        launch.program(2)
        self.assertRaises(memory.Race, launch.load, [2])

    def test_a_value_that_was_there_already_is_not_new(self):
        launch = Launch()
        launch.program(0)
        launch.store([0, 1], [0.0, 4.0])
        launch.program(1)
        launch.load([0])
        self.assertRaises(memory.Race, launch.load, [1])

    def test_lanes_that_the_mask_leaves_out_count_for_nothing(self):
        launch = Launch()
        launch.program(0)
        launch.store([0, 1], [1.0, 1.0], [1, 0])
        launch.program(1)
        launch.load([0, 1], [0, 1])
        self.assertRaises(memory.Race, launch.load, [0, 1], [1, 0])

    def test_atomics_of_both_programs_order_them(self):
        launch = Launch()
        launch.program(0)
        launch.store([0], [1.0])
        launch.atomic(7)
        launch.store([1], [1.0])  # after its last atomic
        launch.program(1)
        self.assertRaises(memory.Race, launch.load, [0])  # before its first one
        launch.atomic(7)
        launch.load([0])
        self.assertRaises(memory.Race, launch.load, [1])

    def test_elements_of_other_sizes_are_told_apart(self):
        launch = Launch()
        launch.program(0)
        launch.store([1], [1.0])
        launch.program(1)
        launch.load([3, 8], size=1)
        self.assertRaises(memory.Race, launch.load, [7], size=1)
        self.assertRaises(memory.Race, launch.load, [0], size=8)
        launch.load([1], size=8)


if __name__ == "__main__":
    unittest.main()
