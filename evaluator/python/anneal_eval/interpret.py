"""Triton without a GPU: every launch is compiled ahead of time for a chosen target, then run by the interpreter.

Triton 3.6 chooses between compiler and interpreter when `@triton.jit` is applied. Here each kernel stays a JITFunction,
so that the compiler sees exactly what a GPU would compile, and only the launch is replaced: first the ordinary
specialise-and-compile step against a driver that knows nothing but its target, then the same text through the
interpreter, with the names and defaults that the compiler saw, its programs in an order of ours. Gaps of
the interpreter that are closed here: autotune (every configuration is compiled, the first that compiles runs), bf16 constants, and library functions such as tl.sum when triton was imported for compiling.
"""

import ast
import copy
import dataclasses
import operator
import types

import numpy as np
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import autotuner, interpreter, jit
from triton.runtime.driver import driver

from anneal_eval import bf16, kernel_body, memory
from anneal_eval.kernel_body import UnsupportedOnCpu


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


_SEMANTIC = "<interpreter_semantic>"  # no name that a kernel could use


class _Assignments(interpreter.ASTTransformer):
    """Triton's own rewriting of assignments, under a name that the kernel cannot take."""

    def visit_Assign(self, node):
        node = super().visit_Assign(node)
        node.value.func.value.id = _SEMANTIC
        return node


def _rewritten(function):
    """The Python function that the interpreter runs: of the text, the names and the defaults that the compiler saw."""
    body = kernel_body.body_of(function)
    if body.runnable is None:
        tree = ast.Module([copy.deepcopy(body.tree)], [])
        definition = tree.body[0]
        definition.decorator_list, definition.returns = [], None
        for one in definition.args.args:
            one.annotation = None
        definition.args.defaults = []
        ast.increment_lineno(tree, body.first_line - 1)
        tree = ast.fix_missing_locations(_Assignments().visit(tree))
        scope = {**body.names, _SEMANTIC: interpreter.interpreter_semantic, "print": _device_print}
        exec(compile(tree, function.fn.__code__.co_filename, "exec"), scope)
        body.runnable = scope[definition.name]
        if definition.name in body.names:  # a variable of the same name, which the definition has hidden
            scope[definition.name] = body.names[definition.name]
        body.runnable.__defaults__ = function.fn.__defaults__
    return body.runnable


def _combine_as_compiled():
    """Triton's slow path of reductions and scans runs a combining function's own text, in the names of that moment."""
    given = interpreter.ReduceScanOpInterface.__init__

    def init(self, axis, combine_fn):
        given(self, axis, combine_fn)
        if not kernel_body.is_tritons_own(combine_fn):
            self.combine_fn = types.SimpleNamespace(fn=_rewritten(combine_fn))

    interpreter.ReduceScanOpInterface.__init__ = init


def _device_print(*values, **options):
    return triton.language.device_print(*values, **options)  # looked up late: it is patched during a launch


# What the interpreter looks at to decide which modules to patch: both, so that device functions of any module work.
_LANGUAGE = types.SimpleNamespace(__globals__={"tl": triton.language, "core": triton.language.core})


class Order:
    """In which order the programs of a launch run; a kernel's answer must not depend on it."""

    FORWARD, RANDOM = "forward", "random"
    kind = RANDOM

    def programs(self, grid):
        count = grid[0] * grid[1] * grid[2]
        numbers = range(count) if self.kind == self.FORWARD else _random.permutation(count)
        for number in numbers:
            number = int(number)
            yield number // (grid[1] * grid[2]), number // grid[2] % grid[1], number % grid[2]


_random = np.random.default_rng()
order = Order()


class IntegerDots:
    """The dots of eight-bit integers that launches interpret."""

    left_out = False  # they add nothing to their accumulators
    products = 0  # pairs of numbers multiplied since it was set to 0

    def install(self):
        dot = interpreter.InterpreterBuilder.create_dot

        def create_dot(builder, a, b, accumulator, *options, **named):
            if a.dtype.scalar.is_int():  # int8 and uint8: the compiler has refused others
                self.products += a.data.size * b.data.shape[-1]
                if self.left_out:
                    return accumulator
            return dot(builder, a, b, accumulator, *options, **named)

        interpreter.InterpreterBuilder.create_dot = create_dot


integer_dots = IntegerDots()


def _interpret(function, arguments, grid, watch, debug):
    """Runs every program of the grid. arguments: values by name, as bound. debug: device assertions count."""
    runnable = _rewritten(function)
    grid = tuple(int(operator.index(one)) for one in (*grid, 1, 1)[:3])  # an int of the file's own class computes
    constants = {one.name for one in function.params if one.is_constexpr}
    # Patched once a launch (it costs milliseconds) and taken back after it, or nothing would compile any more.
    scope = interpreter._patch_lang(_LANGUAGE)
    watch.paused = True
    # The interpreter leaves assertions out unless its own options say so; a GPU goes by the kernel's.
    before = interpreter.interpreter_builder.options
    interpreter.interpreter_builder.options = dataclasses.replace(before, debug=debug)
    buffers = memory.Buffers(function.fn.__name__, arguments)
    memory.launched(buffers)
    try:
        values = {name: one if name in constants else interpreter._implicit_cvt(one) for name, one in arguments.items()}
        interpreter.interpreter_builder.set_grid_dim(*grid)
        with np.errstate(all="ignore"):
            with watch.seal.kernel([one for _, one in memory.tensors_of(arguments.items())]):
                for program in order.programs(grid):
                    interpreter.interpreter_builder.set_grid_idx(*program)
                    buffers.next_program()
                    runnable(**values)
    except (kernel_body.HostCode, UnsupportedOnCpu, memory.IllegalAccess, memory.Race):
        raise
    except Exception as cause:
        text = f"{type(cause).__name__}: {cause}"
        # The compiler accepted this kernel, so what the interpreter's builder lacks is the interpreter's gap.
        if isinstance(cause, NotImplementedError) or (isinstance(cause, AttributeError) and "InterpreterBuilder" in text):
            raise UnsupportedOnCpu(f"Triton's interpreter cannot run {function.fn.__name__}: {text}") from cause
        raise interpreter.InterpreterError(repr(cause)) from cause
    finally:
        interpreter.interpreter_builder.options = before
        memory.launched(None)
        watch.paused = False
        scope.restore()


def install(capability, watch):
    """Replaces launches in this process. capability: 80, 90, 100: the target that kernels are compiled for.

    watch: HostOperators, paused while the interpreter itself works. Returns the list that refused launches are added to.
    """
    driver.set_active(_TargetOnlyDriver(capability))
    bf16.install(UnsupportedOnCpu)
    memory.install()
    integer_dots.install()
    _combine_as_compiled()
    compile_only = jit.JITFunction.run
    refusals = []  # what the candidate's code cannot take back by catching it

    def run(self, *args, grid, warmup, **kwargs):
        kernel = compile_only(self, *args, grid=grid, warmup=True, **kwargs)
        if not warmup:
            bound = self.signature.bind(*args, **{name: one for name, one in kwargs.items() if name in self.arg_names})
            bound.apply_defaults()
            for operation in ("tt.extern_elementwise", "tt.elementwise_inline_asm"):
                if operation in kernel.asm["ttir"]:
                    raise UnsupportedOnCpu(f"{self.fn.__name__} uses {operation}, which Triton's interpreter lacks")
            if callable(grid):  # the candidate's own host code: watched like the rest of it, and over before the check
                grid = grid(dict(bound.arguments))
            try:
                kernel_body.check(self, bound.arguments)
                _interpret(self, bound.arguments, grid, watch, bool(self.debug or kwargs.get("debug")))
            except (kernel_body.HostCode, memory.IllegalAccess, memory.Race) as refusal:
                refusals.append(refusal)
                raise
        return kernel

    def call(self, *args, **kwargs):
        # A kernel calls a device function (tl.sum, its own helper).
        return _rewritten(self)(*args, **kwargs)

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
    return refusals
