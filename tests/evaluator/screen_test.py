"""The static screen: what it finds, what it leaves alone. Run by ctest with the Python of anneal-evald."""
import json
import os
import re
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "evaluator", "python"))

from anneal_eval.screen import reached_source, screen  # noqa: E402

HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\ndef kernel(x_ptr, BLOCK: tl.constexpr):\n" \
       "    pass\n\n\ndef launch(input):\n    kernel[(1,)](input, BLOCK=8)\n\n\n"

# Each refused, after HEAD.
REFUSED = r'''
import ctypes
import subprocess as s
import anneal_eval
import inspect
import candidate
import timeit
from os import *
from torch import *
torch.ctypes.string_at(0)
torch.threading.Thread
torch.builtins.exec("")
from torch import threading
from torch import builtins as b
from torch import sys
torch.os.system("ls")
import logging; logging.os
from triton.testing import subprocess
import triton.testing as tt; tt.subprocess
import sys as s; s.modules
import sys; s = sys; s.modules["x"]
import sys; sys._getframe()
import sys; sys.settrace(None)
from sys import modules
t = torch; t.compile(launch)
t = torch; u = t; v = u; v.compile
t, u = torch, 1; t.compile
[t, u] = torch, 1; t.compile
t: object = torch; t.compile
for t in (torch,): t.compile
with torch as t: t.compile
(t := torch).compile
if (t := torch): t.compile
t = triton if 0 else torch; t.compile
t = None or torch; t.compile
[torch][0].compile(launch)
(lambda t=torch: t.compile)()
def f(t): t.compile(launch)
def f(): return torch
class A: t = torch
class A: c = torch.cuda
x = {"t": torch}
match torch:\n    case object(compile=c): pass
match launch:\n    case object(__globals__=g): pass
torch.ｃompile(launch)
from torch import compile as c
torch.jit.script(launch)
from torch.jit import trace
torch.ops.aten.mul
torch.nn.Linear(1, 1).compile()
torch._int_mm
from torch._C import _cuda_getCurrentRawStream
torch._dynamo.optimize()
torch.utils.cpp_extension.load_inline
from torch.utils import cpp_extension as e
import torch.utils._python_dispatch
torch.library.custom_op("a::clone", mutates_args=())
from torch.library import triton_op
torch.load("x")
type(kernel).run = None
kernel.run = None
k = kernel; k.fn = None
k = triton.jit(launch); k.fn = None
k = triton.autotune([], [])(triton.jit(launch)); k.cache = None
K = type(kernel); K.warmup = None
[kernel][0].fn = None
kernel.__class__.fn = None
T = kernel.__class__
torch.a, x = 1, 2
(x, [torch.a]) = 1, (2,)
torch.a += 1
torch.a: int = 1
for torch.a in (1,): pass
[0 for torch.a in (1,)]
with launch as torch.a: pass
del torch.a
torch.Tensor.add = None
from torch import Tensor; Tensor.add = None
T = torch.Tensor; T.add = None
T = getattr(torch, "Tensor"); T.add = None
setattr(torch, "add", None)
setattr(torch.Tensor, "add", None)
setattr(kernel, "fn", None)
setattr(launch, "r" + "un", None)
delattr(torch, "add")
s = setattr
map(getattr, [], [])
getattr(torch, "comp" + "ile")
getattr(torch, "compile")
getattr(torch, "cuda").CUDAGraph
c = getattr(torch, "jit"); c.script
getattr(kernel, "__globals__")
getattr(*[torch, "compile"])
import operator; operator.attrgetter("compile")
torch.__dict__["add"] = None
vars(torch)
vars(torch)["add"] = None
globals()["__builtins__"]
object.__getattribute__(launch, "x")
object.__setattr__(launch, "x", 1)
launch.__globals__
launch.__code__
print.__self__
().__class__.__base__
().__class__.__mro__
e = exec; e("")
f = [eval]
exec("")
eval("1")
compile("", "", "exec")
__import__("os")
breakpoint()
def f(e=exec): e("")
def f(eval=eval): pass
def f(x=lambda open: 0): open("x")
def f(open):\n    class A:\n        open = open
def f():\n    global open\n    open = open
lambda: exec("")
@exec\ndef f(): pass
f"{exec('')}"
[exec(x) for x in ""]
def f(x: exec): pass
def f(x: "exec('')"): pass
def f() -> "torch.compile": pass
x: "torch.compile" = 1
def f():\n    def g():\n        return [lambda: (yield exec)]
match 1:\n    case 1 if exec(""): pass
async def f(): exec("")
class A(metaclass=exec): pass
import os; os.fork()
import os; os.system("ls")
import os; os.execv("ls", [])
import os; os.spawnv(0, "ls", [])
import os; os.popen("ls")
import os; os.kill(1, 9)
import os; os.posix_spawn("ls", [], {})
import os; os.write(3, b"")
import os; os.read(3, 1)
import os; os.open("x", 0)
from os import fork as f
import os; os.environ["TRITON_PTXAS_PATH"] = "x"
import os; os.environ["PATH"] = "x"
import os; os.environ["TRITON_" + "DEBUG"] = "1"
import os; e = os.environ; e["A"] = "1"
import os; os.environ.setdefault("TRITON_KERNEL_OVERRIDE", "1")
import os; os.environ.setdefault(*["TRITON_KERNEL_OVERRIDE", "1"])
import os; s = os.environ.setdefault; s("PATH", "x")
import os; [os.environ.setdefault]
import os; map(os.environ.setdefault, ["PATH"], ["x"])
import os; os.environ.update(A="1")
import os; [os][0].fork()
open("x", "w")
open("x")
with open("x") as f: pass
o = open
import io
import pathlib
import tempfile
def __getattr__(name): pass
def __torch_function__(*a): pass
class A:\n    def __torch_dispatch__(self): pass
class A:\n    __torch_function__ = None
class A:\n    def __cuda_array_interface__(self): pass
from torch.utils._python_dispatch import TorchDispatchMode
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(None): pass
from torch.cuda import graph as g
c = torch.cuda; c.graph(None)
torch.cuda.make_graphed_callables
def f(x): x.numpy()
def f(x): torch.from_numpy(x)
def f(x): torch.asarray(x)
def f(x): torch.frombuffer(x)
import numpy as np; np.asarray(launch)
import numpy as np; np.array(launch)
import numpy as np; np.array([launch])
import numpy as np; np.array([1], like=launch)
import numpy as np; np.array(object=launch)
import numpy as np; np.array(*[launch])
import numpy as np; a = np.array; a(launch)
import numpy as np; np.array([1, exec("")])
import numpy as np; np.frombuffer(b"")
from numpy import array
import numpy as np; n = np; n.array(launch)
def f(x): x.__array__()
def f(x): x.__array_interface__
def f(x): x.__cuda_array_interface__
def f(x): x.tolist()
def f(x): x.storage()
def f(x): x.untyped_storage()
getattr(launch, "numpy")
__loader__
__spec__.loader
__builtins__
__builtins__["exec"]
torch.__loader__
torch.__spec__
torch.__builtins__
from torch import __builtins__ as b
from triton.runtime.jit import JITFunction; JITFunction.run = None
from triton.runtime.jit import JITFunction as J; [J]
from triton.runtime import JITFunction\nclass A(JITFunction): pass
from triton.runtime.jit import InterpretedFunction
isinstance(launch, triton.JITFunction.run)
isinstance(launch, [triton.JITFunction][0])
isinstance(launch, (lambda: triton.JITFunction)())
isinstance(launch, int, x=exec(""))
def isinstance(a, b): pass\nisinstance(launch, triton.JITFunction)
from math import sqrt as isinstance; isinstance(launch, triton.JITFunction)
def f(isinstance): isinstance(launch, triton.JITFunction)
def f(x=triton.JITFunction): pass
class A:\n    x: triton.JITFunction
torch.nn.modules.utils._list_with_default
torch._check_with(ValueError, True, launch)
kernel.get_capture_scope()["__builtins__"]
kernel.used_global_vals
triton.JITFunction
triton.runtime.JITFunction.run = None
triton.runtime.jit.JITFunction
from triton.runtime.autotuner import Autotuner; Autotuner.run
from triton.compiler import CompiledKernel
triton.compiler.compile
triton.compile
import triton.compiler as c; c.compile
import triton.backends.nvidia.driver
triton.backends.backends
triton.runtime.driver.active.launcher_cls
triton.runtime.driver.active = None
triton.runtime.driver.set_active(None)
triton.runtime.driver.active.utils.load_binary
triton.runtime.interpreter
triton.knobs.runtime.interpret = True
k = triton.knobs; k.runtime.debug = True
triton.knobs.runtime.launch_enter_hook.add(launch)
from triton import knobs; knobs.compilation.always_compile = True
triton.testing.do_bench = None
import triton.testing as tt; tt.do_bench = None
from triton import testing; testing.do_bench = None
tl.load = None
import time; time.time = None
import math; math.exp = None
torch.use_deterministic_algorithms(False)
torch.utils.deterministic.fill_uninitialized_memory = False
torch.backends.cuda.is_built = None
torch.backends.cuda = None
__name__ = "__main__"
def f(__name__): pass
import math as __name__
for __name__ in (): pass
match 1:\n    case __name__: pass
if __name__ == "__main__" or True:\n    exec("")
if __name__ != "__main__":\n    exec("")
if __name__ == "__main__":\n    pass\nelse:\n    exec("")
def f():\n    if __name__ == "__main__":\n        exec("")
x = "LONG"
def f(x=b"LONG"): pass
import collections; collections._sys.modules
import collections; [collections][0]
import collections; def_ = (collections, 1)
import enum; enum.bltns.exec
import copy; copy.copyreg.pickle
import json; json.codecs.open("x")
import math as m; f"{m}"
torch.functional.torch.ops.aten.mul
torch.nn.functional.torch._C
import string; string.Formatter().get_field("0.__globals__", (launch,), {})
from string import Formatter
import functools; functools.update_wrapper(launch, launch)
import functools; functools.wraps(launch, assigned=("__globals__",))
import functools; functools.wraps(launch, ("__globals__",))
import functools; functools.wraps(*[launch, ("__globals__",)])
import functools; functools.partial(functools.wraps, assigned=("__globals__",))
from functools import wraps; [wraps]
import functools; functools.singledispatch(launch)
import typing; typing._eval_type(typing.List["exec"], {}, {})
import typing_extensions as t; t.evaluate_forward_ref(1)
import logging.config; logging.config.dictConfig({})
import logging; logging.basicConfig(filename="x.py")
import logging; logging.basicConfig(**{"filename": "x.py"})
import argparse; argparse.FileType("w")
import contextlib\nclass A(contextlib.redirect_stdout):\n    _stream = "modules"
import types; types.CodeType
import types; types.FunctionType
(x for x in ()).gi_code
import numpy as np; np.testing.runstring("", {})
import numpy as np; np.genfromtxt("x")
import numpy as np; np.loadtxt("x")
from numpy import savetxt
def f(x): x.tofile("x")
import torch.utils.benchmark as b
torch.utils.benchmark.Timer(stmt="")
from torch.utils.data import DataLoader
torch.nn.parallel.parallel_apply([], [])
torch.profiler.profile()
import weakref; weakref.finalize(launch, launch)
import traceback; traceback.walk_stack(None)
'''

# Each left alone, after HEAD, when `launch` is what is called: nothing of it can be reached from there.
UNREACHED = r'''
def test():\n    exec(input())
def test():\n    x.numpy()\ndef main():\n    test()
def test(n):\n    return other(n - 1)\ndef other(n):\n    return test(n).numpy()
async def test():\n    exec("")
@torch.no_grad()\ndef test():\n    exec("")
@triton.testing.perf_report(triton.testing.Benchmark(["n"], [1], "p", ["a"], ["b"], plot_name="c", args={}))\ndef run(n, p):\n    return x.numpy()
import triton.testing as tt\n@tt.perf_report([])\ndef run(n):\n    exec("")
def test():\n    """Of launch."""\n    import pytest\n    open("x")
import ctypes
import ctypes as c, subprocess
from subprocess import Popen, run as r
import concurrent.futures
from concurrent.futures import ThreadPoolExecutor
import torch.distributed as dist
import torch.utils.cpp_extension
from torch.utils.cpp_extension import load, load_inline
from torch.utils import benchmark, cpp_extension as e
from torch.profiler import profile
try:\n    import inspect\nexcept ImportError:\n    pass
def f():\n    import gc\n    return 1
from torch.utils.cpp_extension import load\ntl.load
def benchmark():\n    exec("")\ntorch.backends.cudnn.benchmark = True\ndef f(**k): pass\nf(benchmark=1)
import inspect\ndef test():\n    inspect.currentframe()
import time, timeit\ndef test():\n    timeit.timeit("x")
'''

# Each refused with that entry too.
REACHED = r'''
def test(): exec("")\ntest()
def test(): exec("")\nlaunch.test = test
def test(): exec("")\nt = {"f": test}
def test(): exec("")\nclass A:\n    def f(self): return test()
def test(): exec("")\ndef helper(): test()\nhelper()
def test(): exec("")\nx = "test"
def test(): exec("")\ndef f(x: "test()"): pass
def test(): exec("")\ndef f(x=lambda: test()): pass
def test(): exec("")\ndef f(x):\n    global test\nx = f(test)
def test(x=exec("")): pass
def test(x: exec("")): pass
@exec\ndef test(): pass
@launch\ndef test(): exec("")
@triton.jit\ndef test(): exec("")
def no_grad(f): f()\nclass T: pass\ntorch = T\n@torch.no_grad()\ndef test(): exec("")
for triton in (1,): pass\n@triton.testing.perf_report([])\ndef test(): exec("")
if True:\n    def test(): exec("")
class A:\n    def test(self): exec("")
class A:\n    exec("")
def kernel_function(x): exec("")
def __getattr__(name): pass
def launch(x): exec("")
import ctypes\nctypes.string_at(0)
import ctypes\nx = "ctypes"
import ctypes as c\ndef f(): return c\nf()
import ctypes as math\nmath.f()
from subprocess import run\nclass A:\n    x = run
import torch.distributed\ntorch.distributed.init_process_group()
import torch.distributed as dist\nlaunch.x = dist
import subprocess as __name__
from subprocess import *
import pip
import candidate
import ctypes.util
from . import ctypes
class A:\n    import ctypes\nA.ctypes
class A:\n    def f(self):\n        import ctypes
import gc\nmatch 1:\n    case object(gc=x): pass
'''

# Each left alone, after HEAD.
ALLOWED = r'''
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True
from torch.backends import cudnn; cudnn.deterministic = True
m = torch.backends.cuda.matmul; m.allow_tf32 = True
setattr(torch.backends.cudnn, "enabled", True)
torch.set_float32_matmul_precision("high")
if __name__ == "__main__":\n    import subprocess\n    exec(open("x").read())\n    torch.compile(launch)
if "__main__" == __name__:\n    torch.add = None
def f():\n    """LONG"""
"""LONG"""
getattr(torch, "float8_e4m3fn", None)
x = getattr(torch, "float8_e4m3fn", None); y = x is None
def f(x): return getattr(x, "is_contiguous")()
hasattr(tl, "float8e4nv")
hasattr(torch, "comp" + "ile")
class A(torch.nn.Module):\n    def __init__(self, n):\n        super().__init__()\n        self.n = n\n        self.a, self.b = 1, 2
def f(x):\n    x.requires_grad = False\n    x.grad = None\n    del x.grad
def f(cache, key):\n    cache[key] = 1\n    del cache[key]
def f(self, key):\n    self.a.b[key].c = 1
def f(x):\n    setattr(x, "anneal", 1)
launch.cache = {}
class A(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        ctx.shape = x.shape\n        return x
import os; x = os.environ.get("A", "0")
import os; os.environ["TRITON_PRINT_AUTOTUNING"] = "1"; os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
import os; os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
from os import environ; environ["TRITON_INTERPRET"] = "0"; del environ["TRITON_INTERPRET"]
import numpy as np; x = np.array([1, -2.5]), np.asarray(((1, 2), (3, 4)), dtype=np.float32), np.array(2)
def f(g): return isinstance(g, triton.runtime.JITFunction)
def f(g): return isinstance(g, (int, triton.JITFunction))
from triton.runtime import Autotuner, JITFunction\ndef f(g: JITFunction, h: "int" = 1) -> JITFunction: return isinstance(g, (JITFunction, Autotuner))
from torch.nn.modules.utils import _pair; x = _pair(1)
torch.nn.modules.utils._single(1); torch._check_is_size(1)
import os; x = os.environ["A"]; y = "A" in os.environ
import os; x = os.getenv("A"), os.path.join("a", "b"), os.cpu_count()
import functools\n@functools.lru_cache(maxsize=None)\ndef f(n): return n
from functools import lru_cache, partial, reduce, wraps
from dataclasses import dataclass, field\n@dataclass(frozen=True)\nclass A:\n    n: int = 1
from typing import Any, Dict, List, Optional, Tuple, Union
from __future__ import annotations
import math; x = math.ceil(math.log2(8))
import enum\nclass A(enum.Enum):\n    X = 1
import contextlib; x = contextlib.nullcontext()
import warnings; warnings.filterwarnings("ignore")
import collections; x = collections.defaultdict(dict)
from collections import OrderedDict, namedtuple
import itertools, operator; x = operator.mul
import re; x = re.compile("a").match("a")
import re as r; p = r.compile; p("a")
import logging; logger = logging.getLogger(__name__); logger.info("a")
import sys; x = sys.version_info, sys.platform, sys.maxsize; print("a", file=sys.stderr)
import time; x = time.perf_counter(), time.time()
import torch.nn as nn; x = nn.Linear(1, 1)
import torch.nn.functional as F
from torch import nn, Tensor
from torch.nn import functional as F
from triton.language.extra import libdevice
import triton.language.extra.libdevice as libdevice
try:\n    from triton.language.extra import libdevice\nexcept ImportError:\n    from triton.language.extra.cuda import libdevice
try:\n    import triton\nexcept ImportError:\n    triton = None
from triton.language.math import exp, tanh
import triton.testing\nx = triton.testing.do_bench
import numpy as np; x = np.sqrt(2.0), np.prod((2, 3)), np.float32(1), np.inf
x = triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"]
x = triton.runtime.driver.active.get_active_torch_device()
from triton.runtime import driver; x = driver.active.get_current_target(); y = x.backend
from triton.runtime.driver import driver; driver.active.get_current_device()
d = triton.runtime.driver; d.active.get_current_target()
from triton.runtime.errors import OutOfResources
from triton.compiler.errors import CompilationError
from triton.tools.tensor_descriptor import TensorDescriptor
triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8))
c = kernel.warmup(1, BLOCK=8, grid=(1,)); c._init_handles(); x = c.n_regs, c.metadata.shared
x = torch.cuda.get_device_properties(0).multi_processor_count
torch.cuda.synchronize(); s = torch.cuda.Stream(); e = torch.cuda.Event()
@torch.no_grad()\ndef f(x): return x
@torch.jit.ignore\ndef f(x): return x
@torch.compiler.disable\ndef f(x): return x
@triton.autotune(configs=[triton.Config({"BLOCK": 8}, num_warps=4)], key=["n"])\n@triton.jit\ndef f(x, n, BLOCK: tl.constexpr): pass\nf[(1,)](1, 2)
@triton.heuristics({"BLOCK": lambda a: triton.next_power_of_2(a["n"])})\n@triton.jit\ndef f(x, n, BLOCK: tl.constexpr): pass\nf[(1,)](1, 2)
def compile_block(input, other): return input
def f(input, eval=False, vars=None):\n    open = 1\n    return input if eval else vars or open
def f(x):\n    vars = x.var()\n    return vars
def f(dtype: "torch.dtype", x: "Optional[torch.Tensor]" = None) -> "torch.Tensor": pass
def f(x): return x.__class__.__name__, type(x).__name__, launch.__name__
def f(x): return isinstance(x, (int, torch.Tensor))
dtype = torch.float16; tile = tl.float32
x = torch.__version__, triton.__version__
__all__ = ["launch"]
match 1:\n    case int(): pass
x = f"{torch.float16!r:>10}"
x = input if False else None
def f(x): return x.data_ptr() % 16, x.item(), x.cpu()
torch._assert(True, "a"); torch.manual_seed(0)
torch.testing.assert_close(1, 1)
import functools\ndef f(g):\n    @functools.wraps(g)\n    def h(*a): return g(*a)\n    return h
from functools import wraps\ndef f(g):\n    @wraps(g)\n    def h(*a): return g(*a)\n    return h
import logging; logging.basicConfig(level=logging.INFO, format="%(message)s")
import argparse; p = argparse.ArgumentParser(); p.add_argument("--n", type=int)
from typing_extensions import Literal, Self
import collections.abc; x = isinstance((), collections.abc.Sequence)
import copy; x = copy.deepcopy({})
import os; x = os.path.exists("a"), os.path.dirname(__file__)
import numpy as np; x = np.ceil(1.5), np.iinfo(np.int8).max, np.log2(8)
import packaging.version; x = packaging.version.parse("1")
'''


def text_of(line):
    return HEAD + line.replace("\\n", "\n").replace("LONG", "a" * 5000) + "\n"


def screened(source, *options, **more):
    with tempfile.NamedTemporaryFile(suffix=".py") as file:
        file.write(source if isinstance(source, bytes) else source.encode())
        file.flush()
        return json.loads(screen(file.name, *options, **more))


class Screen(unittest.TestCase):
    def test_refuses(self):
        for line in REFUSED.strip().splitlines():
            with self.subTest(line):
                found = screened(text_of(line))
                self.assertEqual(found["class"], "ok", found)
                self.assertTrue(found["forbidden"])

    def test_leaves_alone(self):
        for line in ALLOWED.strip().splitlines():
            with self.subTest(line):
                found = screened(text_of(line))
                self.assertEqual((found["class"], found["forbidden"], found["decoys"]), ("ok", [], []))

    def test_leaves_alone_what_the_entry_does_not_reach(self):
        for line in UNREACHED.strip().splitlines():
            with self.subTest(line):
                found = screened(text_of(line), "launch")
                self.assertEqual((found["class"], found["forbidden"]), ("ok", []))
                self.assertTrue(screened(text_of(line))["forbidden"])

    def test_refuses_what_the_entry_may_reach(self):
        for line in REACHED.strip().splitlines():
            with self.subTest(line):
                found = screened(text_of(line), "launch")
                self.assertEqual(found["class"], "ok", found)
                self.assertTrue(found["forbidden"])
        for line in REFUSED.strip().splitlines():
            if not line.startswith(("import ", "from ", "def ", "async def ")):
                with self.subTest(line):
                    self.assertTrue(screened(text_of(line), "launch")["forbidden"])

    def test_what_is_not_reached_is_not_there_to_be_run_and_lines_stay(self):
        source = (b"import ctypes, math\r\nimport torch\n\n\ndef quietly(x):\n    \"\"\"A \xc2\xb7\n    text.\"\"\"\n    @staticmethod\n"
                  b"    def f(): pass\n    return f\n\n\ndef one(): return exec\n\n\ndef launch(x):\n\treturn x\n")
        self.assertEqual(reached_source(source, "launch"),
                         b"import math\r\nimport torch\n\n\ndef quietly(x):\n    pass\n\n\n\n\n\n\ndef one(): return exec\n\n\ndef launch(x):\n\treturn x\n")

    def test_text_whose_lines_hold_more_is_left_as_it_is(self):
        source = b"import ctypes; import gc\n\n\ndef launch(x):\n    return x\n"
        self.assertEqual(reached_source(source, "launch"), source)

    def test_what_a_task_of_integer_products_does_not_allow_is_found_in_code_alone(self):
        for line in ("torch._int_mm(1, 2)", "from torch import _int_mm", "t = torch; t._int_mm", 'getattr(torch, "_int_mm")',
                     "torch.ao.quantization", "torch.ops.aten.mm", "torch.quantize_per_tensor(1)"):
            with self.subTest(line):
                found = screened(text_of(line), "launch", integer_task=True)
                self.assertEqual(found["class"], "forbidden_api")
                self.assertIn("must not be used in this task", found["message"])
                self.assertEqual(screened(text_of(line), "launch")["class"], "ok")
        for line in ("# not torch._int_mm", '"""As torch._int_mm and torch.ao.quantization do."""', 'x = "torch.dequantize"',
                     "def test():\\n    torch._int_mm(1, 2)", "def f():\\n    raise ValueError('no torch.ops.aten here')"):
            with self.subTest(line):
                found = screened(text_of(line), "launch", integer_task=True)
                self.assertEqual((found["class"], found["forbidden"]), ("ok", []))

    def test_reads_bytes_as_python_loads_them(self):
        hidden = "# coding: utf-7\n".encode() + "#\nimport ctypes".encode("utf-7").replace(b"\n", b"+AAo-") + b"\n"
        found = screened(hidden)["forbidden"]
        self.assertEqual(found, ["line 1: the encoding is not UTF-8", "line 3: imports ctypes"])

    def test_refuses_other_encodings(self):
        for start in (b"# coding: latin-1\n", b"#!python\n# -*- coding: utf_7 -*-\n", b"\r# vim: fileencoding=utf-7\r",
                      b"#\r\n#coding=cp1252\r\n", b"\f# coding:\tunicode_escape\n"):
            with self.subTest(start):
                self.assertIn("encoding", "".join(screened(start + b"x = 1\n")["forbidden"]))

    def test_utf8_may_be_said(self):
        for start in (b"# -*- coding: utf-8 -*-\n", b"# coding: UTF8\n", b"\xef\xbb\xbf", b"x = 1\ny = 2\n# coding: latin-1\n"):
            with self.subTest(start):
                found = screened(start + "x = 'ü'\n".encode())
                self.assertEqual((found["class"], found["forbidden"]), ("ok", []))

    def test_what_python_cannot_read_is_a_syntax_error(self):
        for source in (b"x = '\xff'\n", b"# coding: nonsense\n", b"x = \x00\n", b"def f(:\n", b"(" * 5000, b"-" * 20000 + b"1"):
            with self.subTest(source[:20]):
                self.assertEqual(screened(source)["class"], "syntax_error")

    def test_hostile_aliases_end(self):
        loop = "\n".join(f"t = t.a{i}" for i in range(200))
        self.assertIn("too many", screened("import torch\nt = torch\n" + loop)["forbidden"][0])
        chain = "\n".join(f"t{i + 1} = t{i}" for i in reversed(range(31)))
        self.assertTrue(screened("import torch\nt0 = torch\n" + chain + "\nt31.compile\n")["forbidden"])

    def test_says_where_and_why(self):
        self.assertEqual(screened("import torch\nt = torch\nf = t.compile(1)\n")["forbidden"][0],
                         "line 3: torch.compile stands in for a kernel")

    def test_decoys(self):
        unused = "@triton.jit\ndef unused(x): pass\n"
        self.assertEqual(screened(HEAD + unused)["decoys"], ["unused"])
        self.assertEqual(screened(HEAD + unused + "if __name__ == '__main__':\n    unused[(1,)](1)\n")["decoys"], ["unused"])

    def test_right_kernels_of_the_repository(self):
        checked = 0
        for folder, _, names in os.walk(os.path.join(ROOT, "tests")):
            for name in names:
                path = os.path.join(folder, name)
                if not name.endswith(".py") or os.path.basename(os.path.dirname(folder)) not in ("kernels", "tests"):
                    continue
                with open(path, encoding="utf-8", errors="replace") as file:
                    first = file.readline()
                if first.startswith(("# Right", "# Slow")) or "expect: ok" in first:
                    with self.subTest(path):
                        task = re.search(r"task: (\w+)", first)
                        entry = task[1] if task else os.path.basename(folder)
                        self.assertEqual(json.loads(screen(path, entry))["forbidden"], [])
                        checked += 1
        self.assertGreater(checked, 20)


if __name__ == "__main__":
    unittest.main()
