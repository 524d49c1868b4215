"""Loads and calls one candidate, in its own process. Says what went wrong in the words of the verdict classes."""

import ast
import contextlib
import gc
import importlib.util
import json
import linecache
import os
import re
import sys
import traceback

import torch
import triton
from triton import knobs
from triton.compiler import code_generator
from triton.runtime import autotuner, interpreter, jit
from triton.runtime.errors import OutOfResources, PTXASError

from anneal_eval import bf16, guard, host_operators, interpret, kernel_body, memory, raised, screen, seal
from anneal_eval.host_operators import HostOperators

_DOT = re.compile(r"tt\.dot(?:_scaled)? .*")
_INTEGER_DOT = re.compile(r"tt\.dot .*xi8> \* tensor<[^>]*xi8>")
_LIBRARIES = tuple(os.path.dirname(one.__file__) + os.sep for one in (torch, triton))
MESSAGE_CHARS = 500
DETAIL_CHARS = 4000
# Of a GPU's memory, what torch may allocate for one kernel: the judge and other kernels need the rest. A kernel's inputs
# and poisoned outputs lie in the judge's arena and are not of it.
MEMORY_SHARE = 0.5
NOTHING, KERNELS, INTEGER_DOTS = "nothing", "kernels", "integer_dots"  # what a call may leave out


class Candidate:
    def __init__(self, path, entry, device, capability):
        """device: "cpu" or "cuda". capability: what the interpreter's compile step compiles for."""
        self.path, self.entry, self.on_cpu = path, entry, device == "cpu"
        self.module = self.function = None
        self.launches = []  # (kernel name, compiled kernel)
        self.dots = {}  # of kernels launched so far, by hash: (holds an int8 dot, holds another one)
        self.host = HostOperators()
        self.host.watch_exports()
        self.left_out = NOTHING
        self.integer_dot, self.floating_dot = False, ""  # of the call in progress; the second is a kernel's name
        self.refusals, self.calls = [], 0
        if self.on_cpu:
            self.refusals = interpret.install(capability, self.host)
        self._record_launches()
        # The file may set the variables that they are read from (screen_names.py): kernels stay compiled, and in the folder
        # that they may write to.
        vars(knobs.runtime)["interpret"], vars(knobs.cache)["dir"] = False, knobs.cache.dir
        self.tuners = {}  # by id
        if not self.on_cpu:  # interpret.py has its own
            self._record_tuners()
        self.guard = guard.Guard(_relied_on())
        # Finalisers of cycles would run at any moment, also where nobody watches: they wait for `collect_garbage`.
        gc.disable()
        gc.freeze()

    def _record_tuners(self):
        tune, tuners = autotuner.Autotuner.run, self.tuners

        def run(tuner, *args, **kwargs):
            tuners[id(tuner)] = tuner
            return tune(tuner, *args, **kwargs)

        autotuner.Autotuner.run = run

    def forget_tuning(self):
        """Has the next calls choose their configurations anew: until now other kernels may have shared the device."""
        for tuner in self.tuners.values():
            tuner.cache.clear()

    def _record_launches(self):
        launch, launches = triton.runtime.jit.JITFunction.run, self.launches

        def run(function, *args, grid, warmup, **kwargs):
            self._check_guard()
            kernel = launch(function, *args, grid=grid, warmup=warmup or self._compiles_only, **kwargs)
            if warmup:
                return kernel
            if kernel.hash not in self.dots:
                self.dots[kernel.hash] = _dots_of(kernel.asm["ttir"])
            integer, floating = self.dots[kernel.hash]
            self.integer_dot |= integer
            if floating:
                self.floating_dot = kernel_body.name_of(function)
            if self.left_out == INTEGER_DOTS and not self.on_cpu and not integer:
                launch(function, *args, grid=grid, warmup=False, **kwargs)
            if len(launches) < 10_000:
                launches.append((kernel_body.name_of(function), kernel))
            return kernel

        triton.runtime.jit.JITFunction.run = run

    @property
    def _compiles_only(self):
        """Whether a launch compiles only. On the CPU the interpreter leaves integer dots out by itself."""
        return self.left_out == KERNELS or (self.left_out == INTEGER_DOTS and not self.on_cpu)

    def _check_guard(self):
        # Not yet on a GPU: it takes 0.1 ms a launch, and what a launch there changes itself is not known.
        if not self.on_cpu:
            return
        changed = self.guard.changed()
        if changed:
            refusal = kernel_body.HostCode(f"{changed} is another one than before the kernel's code ran")
            self.refusals.append(refusal)
            raise refusal

    def collect_garbage(self, generation=2):
        """Runs the finalisers that wait. Not while a call's answer has still to be read."""
        gc.collect(generation)

    def other_streams(self):
        """The cudaStream_t of each stream that torch can give a kernel beside the current one. Before its file is loaded."""
        if self.on_cpu:
            return []
        torch.cuda.set_per_process_memory_fraction(MEMORY_SHARE)
        # torch has a pool of 32 for each priority and hands them out in turn (c10/cuda/CUDAStream.h).
        return list({torch.cuda.Stream(priority=priority).cuda_stream for priority in range(-3, 1) for _ in range(32)})

    def load(self):
        """Imports the file and finds the entry. Returns the outcome as JSON text."""
        try:
            self._take_out_what_is_not_reached()
            spec = importlib.util.spec_from_file_location("candidate", self.path)
            self.module = importlib.util.module_from_spec(spec)
            sys.modules["candidate"] = self.module
            spec.loader.exec_module(self.module)
            function = getattr(self.module, self.entry, None) or getattr(self.module, "kernel_function", None)
            if not callable(function):
                return _outcome("missing_entry", f"the module defines no function named {self.entry}", "")
            self.function = function
            return _outcome("ok", "", "")
        except BaseException as error:  # SystemExit too: a candidate that leaves at import has failed
            return self._failure(error, "import_error")

    def _take_out_what_is_not_reached(self):
        """So that nothing runs which was not screened."""
        with open(self.path, "rb") as file:
            source = file.read()
        reached = screen.reached_source(source, self.entry)
        if reached != source:
            with open(self.path + ".reached", "wb") as file:
                file.write(reached)
            os.replace(self.path + ".reached", self.path)

    def call(self, arguments, left_out=NOTHING, sealed=False):
        """Calls the entry. Returns (outcome as JSON text, list of outputs).

        left_out: KERNELS are compiled and not launched. INTEGER_DOTS add nothing to their accumulators (CPU); on a GPU
        the kernels that hold one are not launched. sealed: only kernels and counted operators see true values (seal.py).
        """
        self.left_out, self.host.poisoned = left_out, True
        interpret.integer_dots.left_out = left_out == INTEGER_DOTS
        self.refusals.clear()
        tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
        self.host.item_bytes = min((one.element_size() for one in tensors), default=16)
        self.calls += 1
        # The first case's own run (the second call) is in order and its repetition is not: that difference is a race.
        interpret.order.kind = interpret.Order.FORWARD if self.calls <= 2 else interpret.Order.RANDOM
        try:
            with self.host.seal.call(tensors) if sealed else contextlib.nullcontext():
                outputs = self.timed(arguments)
                if not self.on_cpu:
                    torch.cuda.synchronize()
            self._check_guard()
            if self.refusals:
                raise self.refusals[0]
            return self.answered(outputs)
        except BaseException as error:
            return self.failure(error), []
        finally:
            self.left_out, self.host.poisoned = NOTHING, False
            interpret.integer_dots.left_out = False

    def timed(self, arguments):
        """The outputs of one call, as a list. All that the candidate's code does happens in here, and is watched."""
        self.launches.clear()
        self.host.elements.clear()
        self.integer_dot, self.floating_dot, interpret.integer_dots.products = False, "", 0
        with torch.no_grad(), self.host:
            outputs = self.function(*arguments)
            # A subclass could compute while it is unpacked; it is handed on whole and refused for its type.
            return list(outputs) if type(outputs) in (tuple, list) else [outputs]

    def answered(self, outputs):
        """What `call` returns when the entry returned `outputs`."""
        return _outcome("ok", "", ""), outputs

    def host_operators(self):
        return json.dumps(self.host.report())

    def kernels(self):
        """The launches of the last call, as JSON text: how many, and each distinct kernel's resources."""
        seen = {}
        for name, kernel in self.launches:
            if name not in seen:
                seen[name] = {
                    "name": name, "registers": getattr(kernel, "n_regs", None), "spills": getattr(kernel, "n_spills", None),
                    "shared_bytes": kernel.metadata.shared,
                }
        dots = {"integer": self.integer_dot, "floating": self.floating_dot}
        if self.on_cpu:
            dots["integer_products"] = interpret.integer_dots.products
        return json.dumps({"launches": len(self.launches), "kernels": list(seen.values())[:32], "dots": dots,
                           "host_operators": self.host.report()})

    def failure(self, error):
        """The outcome, as JSON text, of a call that raised `error`."""
        return self._failure(error, "runtime_error")

    def _failure(self, error, default):
        # Where reading it fails, it is of a class of the file's, whose own code ran.
        try:
            failure_class, message = self._class_of(error, default), _first_line(error)
        except BaseException:
            failure_class, message = default, f"{raised.name_of(error)}: what it says cannot be read"
        try:
            return _outcome(failure_class, message, self._detail(error))
        except BaseException:
            return _outcome(failure_class, message, "")

    def _class_of(self, error, default):
        kind = type(error)
        text = f"{raised.name_of(error)}: {raised.text_of(error)}"
        if issubclass(kind, kernel_body.HostCode):
            return "forbidden_api"
        if issubclass(kind, memory.IllegalAccess):
            return "illegal_access"
        if issubclass(kind, memory.Race):
            return "race"
        if issubclass(kind, kernel_body.UnsupportedOnCpu):
            return "unsupported_on_cpu"
        if self.on_cpu and self._wants_cuda(error, text):
            return "unsupported_on_cpu"
        if issubclass(kind, SyntaxError):
            return "syntax_error"
        if issubclass(kind, ImportError):
            return "import_error"
        if issubclass(kind, (triton.CompilationError, PTXASError)):
            return "compile_error"
        if issubclass(kind, OutOfResources):
            return "launch_error"
        if issubclass(kind, (torch.OutOfMemoryError, MemoryError)):
            return "out_of_memory"
        if "illegal memory access" in text or "misaligned address" in text:
            return "illegal_access"
        if default != "import_error" and self._raised_by_launcher(error):
            return "launch_error"
        return default

    @staticmethod
    def _wants_cuda(error, text):
        """torch missing its GPU, or the file's own `assert x.is_cuda`; what else the file says itself is its failure."""
        frames = raised.frames_of(error)
        if not frames:
            return False
        frame = frames[-1]
        if frame.filename.startswith(_LIBRARIES):
            return any(words in text for words in ("NVIDIA driver", "not compiled with CUDA", "No CUDA GPUs"))
        return issubclass(type(error), AssertionError) and _asserts_cuda(frame.line or "")

    @staticmethod
    def _raised_by_launcher(error):
        """A TypeError, KeyError, ValueError... from Triton's binding of arguments to the kernel, not from the kernel."""
        files = [frame.filename for frame in raised.frames_of(error)]
        if not issubclass(type(error), (TypeError, KeyError, ValueError, AttributeError)) or not files:
            return False
        return any(name in files[-1] for name in ("triton/runtime/jit", "triton/runtime/autotuner", "<string>")) or (
            len(files) > 1 and "triton/runtime/jit" in files[-2] and files[-1].startswith("<"))

    def _detail(self, error):
        """The traceback as the model should see it: frames of its own file only, then the error."""
        linecache.checkcache(self.path)
        frames = [f for f in raised.frames_of(error) if f.filename == self.path]
        lines = [f"line {f.lineno}, in {f.name}: {f.line}" for f in frames[-6:]]
        lines += [line.rstrip("\n") for line in traceback.format_exception_only(type(error), error)]
        lines += raised.behind(error)
        return "\n".join(lines).replace(self.path, "kernel.py")[:DETAIL_CHARS]


def _relied_on():
    """Modules and classes whose functions and methods this process goes by."""
    its_own = [bf16, guard, host_operators, interpret, kernel_body, memory, raised, seal, guard.Guard, HostOperators, Candidate, seal.Seal]
    language = [triton.language, triton.language.core, triton.language.math, triton.language.standard, triton.language.tensor,
                triton.language.constexpr, triton.language.dtype, code_generator.CodeGenerator]
    runtime = [jit, jit.JITFunction, jit.KernelInterface, jit.TensorWrapper, autotuner, autotuner.Autotuner, autotuner.Heuristics,
               interpreter, interpreter.InterpreterBuilder, interpreter.TensorHandle]
    return [*its_own, *language, *runtime, torch.Tensor, torch.nn.Parameter]


def _dots_of(ttir):
    """Whether a kernel holds a tl.dot of int8, and whether it holds one of anything else."""
    integer = [bool(_INTEGER_DOT.match(one)) for one in _DOT.findall(ttir)]
    return any(integer), not all(integer)


def _asserts_cuda(line):
    """Whether the condition, and not only the message, of the assert on this line (or begun there) speaks of cuda."""
    try:
        statement = ast.parse(line).body[0]
    except SyntaxError:  # it goes on below
        return line.startswith("assert") and "cuda" in line
    return isinstance(statement, ast.Assert) and "cuda" in ast.unparse(statement.test)


def _outcome(failure_class, message, detail):
    return json.dumps({"class": failure_class, "message": _text(message[:MESSAGE_CHARS]), "detail": _text(detail)})


def _text(text):
    """Lone surrogates, which Python strings may hold and JSON may not, become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _first_line(error):
    """`Type: what`, on one line. Triton's compiler puts the reason on the last line, below the quoted source."""
    name, reason = raised.name_of(error), error
    if issubclass(type(error), SyntaxError):
        return f"{name}: {error.msg} (line {error.lineno})"
    for cause in raised.causes_of(error):  # the compiler's own, without the quoted source above it
        if not issubclass(type(reason), triton.CompilationError) or not raised.text_of(cause).strip():
            break
        reason = cause
    lines = [line.strip() for line in raised.text_of(reason).splitlines() if line.strip()]
    return f"{name}: {lines[-1 if issubclass(type(reason), triton.CompilationError) else 0]}" if lines else name
