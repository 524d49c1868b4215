"""Triton without a GPU: every launch is compiled ahead of time for a chosen target, then run by the interpreter.

Triton 3.6 chooses between compiler and interpreter when `@triton.jit` is applied. Here each kernel stays a JITFunction,
so that the compiler sees exactly what a GPU would compile, and only the launch is replaced: first the ordinary
specialise-and-compile step against a driver that knows nothing but its target, then the same function through the
interpreter. Gaps of the interpreter that are closed here: autotune (every configuration is compiled, the first that
compiles runs), bf16 constants, and library functions such as tl.sum when triton was imported for compiling.
"""

import dataclasses
import types

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import autotuner, interpreter, jit
from triton.runtime.driver import driver

from anneal_eval import bf16


class UnsupportedOnCpu(Exception):
    """The kernel may be right, but the interpreter cannot run it."""


class _TargetOnlyDriver:
    """Answers what the compile step asks; there is no device behind it."""

    def __init__(self, capability):
        self._target = GPUTarget("cuda", capability, 32)

    def get_current_target(self):
        return self._target

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0

    def get_active_torch_device(self):
        import torch

        return torch.device("cpu")

    def get_benchmarker(self):
        raise UnsupportedOnCpu("a kernel was benchmarked; there is nothing to time on the CPU")

    get_device_interface = get_empty_cache_for_benchmark = get_benchmarker


_interpreted = {}


class _Interpreted(interpreter.InterpretedFunction):
    def __init__(self, fn):
        super().__init__(fn)
        self.rewriter._compile_and_exec = self._compile_and_exec

    def _compile_and_exec(self, tree):
        # Triton's own version adds the interpreter's imports to the candidate's globals, which hides missing imports.
        scope = dict(self.fn.__globals__, interpreter_semantic=interpreter.interpreter_semantic)
        local = {}
        exec(compile(tree, filename=self.rewriter.filename, mode="exec"), scope, local)
        return local[self.fn.__name__]


def _interpreted_function(function):
    # Keyed by the Python function: a JITFunction's own hash parses its source against the patched language.
    if function.fn not in _interpreted:
        _interpreted[function.fn] = _Interpreted(function.fn)
    return _interpreted[function.fn]


# What the interpreter looks at to decide which modules to patch: both, so that device functions of any module work.
_LANGUAGE = types.SimpleNamespace(__globals__={"tl": triton.language, "core": triton.language.core})


def _interpret(function, args, kwargs, grid, watch):
    # Patched once a launch (it costs milliseconds) and taken back after it, or nothing would compile any more.
    scope = interpreter._patch_lang(_LANGUAGE)
    if callable(grid):  # the candidate's own host code, and watched like the rest of it
        grid = watch.unpaused(grid)
    watch.paused = True
    # The interpreter leaves assertions out unless its own options say so; a GPU goes by the kernel's.
    before = interpreter.interpreter_builder.options
    debug = bool(function.debug or kwargs.get("debug"))
    interpreter.interpreter_builder.options = dataclasses.replace(before, debug=debug)
    try:
        _interpreted_function(function).run(*args, grid=grid, warmup=False, **kwargs)
    except interpreter.InterpreterError as error:
        cause = error.__cause__ or error
        while isinstance(cause, interpreter.InterpreterError) and cause.__cause__:
            cause = cause.__cause__
        text = f"{type(cause).__name__}: {cause}"
        # The compiler accepted this kernel, so what the interpreter's builder lacks is the interpreter's gap.
        if isinstance(cause, (NotImplementedError, UnsupportedOnCpu)) or (
            isinstance(cause, AttributeError) and "InterpreterBuilder" in text
        ):
            raise UnsupportedOnCpu(f"Triton's interpreter cannot run {function.fn.__name__}: {text}") from error
        raise
    finally:
        interpreter.interpreter_builder.options = before
        watch.paused = False
        scope.restore()


def install(capability, watch):
    """Replaces launches in this process. capability: 80, 90, 100: the target that kernels are compiled for.

    watch: HostOperators, paused while the interpreter itself works.
    """
    driver.set_active(_TargetOnlyDriver(capability))
    bf16.install(UnsupportedOnCpu)
    compile_only = jit.JITFunction.run

    def run(self, *args, grid, warmup, **kwargs):
        kernel = compile_only(self, *args, grid=grid, warmup=True, **kwargs)
        if not warmup:
            for operation in ("tt.extern_elementwise", "tt.elementwise_inline_asm"):
                if operation in kernel.asm["ttir"]:
                    raise UnsupportedOnCpu(f"{self.fn.__name__} uses {operation}, which Triton's interpreter lacks")
            _interpret(self, args, kwargs, grid, watch)
        return kernel

    def call(self, *args, **kwargs):
        # A kernel calls a device function (tl.sum, its own helper).
        return _interpreted_function(self).rewrite()(*args, **kwargs)

    def autotune(self, *args, **kwargs):
        self.nargs = dict(zip(self.arg_names, args))
        working, first_error = [], None
        for config in self.prune_configs(kwargs):
            try:
                self.fn.run(*args, **{**kwargs, **config.all_kwargs(), "warmup": True})
                working.append(config)
            except Exception as error:  # a configuration may be too large for the target: the others go on
                first_error = first_error or error
        if not working:
            raise first_error
        self.best_config = working[0]
        if self.best_config.pre_hook is not None:
            self.best_config.pre_hook({**self.nargs, **kwargs, **self.best_config.all_kwargs()})
        return self.fn.run(*args, **{**kwargs, **self.best_config.all_kwargs()})

    jit.JITFunction.run = run
    jit.JITFunction.__call__ = call
    autotuner.Autotuner.run = autotune
