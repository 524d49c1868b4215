"""What a kernel's body may say on the CPU device: what Triton's compiler reads, and nothing that only Python would run.

The compiler reads the syntax tree of a @triton.jit function and never runs it; the interpreter runs it as Python. A body
that calls the host, or asks which of the two it is in, would be one kernel to the compiler and another one here. So the
whole tree is held to the nodes that the compiler's own visitor has (dead branches too, which it never visits), every
name is looked up in the scope that the compiler looks in, and what it stands for is kept: it must be the same thing in
every later launch.
"""

import ast
import builtins
import collections
import math
import sys
import types

import torch
import triton
import triton.language as tl
import triton.tools.ragged_tma  # with all that a kernel may call: _learn_tritons_own
from triton.compiler.code_generator import CodeGenerator
from triton.runtime.jit import ConstexprFunction, JITCallable, JITFunction, TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor


class HostCode(Exception):
    """The kernel holds what the compiler cannot have meant to see: the host's Python."""


class UnsupportedOnCpu(Exception):
    """The kernel may be right, but the interpreter cannot run it, or not as the compiler means it."""


# Nodes without a visitor of their own, because another node's visitor reads them.
_PARTS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.comprehension, ast.FormattedValue,
          ast.Starred)
_BUILTINS = set(CodeGenerator.builtin_namespace)
# Where the interpreter's answer is another one than the compiler's: its values are of other Python types.
_ABOUT_TYPES = {"isinstance", "hasattr", "getattr"}
# Control flow that the compiler leaves alone in a branch that it drops.
_IN_DROPPED_BRANCHES = (ast.Raise, ast.Break, ast.Continue, ast.With)
# Attributes through which Python objects are reached from a kernel's values.
_HOST_ATTRIBUTES = {"handle", "fn", "run", "warmup", "parse", "src", "raw_src", "get_capture_scope", "format", "format_map",
                    "to_ir", "signature", "cache", "configs"}
# Exact types: a subclass of any of them could bring code of the file's.
_FUNCTIONS = (JITFunction, ConstexprFunction, JITCallable)
_TENSORS = (torch.Tensor, torch.nn.Parameter)
_PLAIN = (type(None), bool, int, float, str, torch.dtype)
_OF_A_DTYPE = (str, int, tl.dtype.SIGNEDNESS)
_OF_A_WRAPPER = {"base", "data", "dtype", "device", "shape"}
_OF_A_DESCRIPTOR = {"base", "shape", "strides", "block_shape", "padding"}


# Functions of Triton's own, with their texts as they are now: what a function says of itself can be claimed.
_TRITONS = {}


def _learn_tritons_own():
    for name, module in list(sys.modules.items()):
        if name.startswith("triton."):
            for one in list(vars(module).values()):
                if type(one) in _FUNCTIONS:
                    _TRITONS[id(one)] = one, one.fn, one.src, one.fn.__code__


_learn_tritons_own()


def is_tritons_own(function):
    """Whether Triton's own modules hold it, unchanged."""
    known = _TRITONS.get(id(function))
    return known is not None and known[0] is function and known[1] is function.fn and known[2] is function.src and \
        known[3] is function.fn.__code__


class Body:
    """One @triton.jit function as it was when it was first launched."""

    def __init__(self, function):
        """Raises HostCode or UnsupportedOnCpu."""
        self.function, self.source = function, function.src
        self.tree = function.parse().body[0]
        decorators = next(i for i, one in enumerate(function.raw_src) if one.lstrip().startswith("def "))
        self.first_line = function.starting_line_number + decorators  # of the definition, in its file
        self.runnable = None  # for the interpreter, made when it is first run
        self.names = {}  # name -> what it stood for
        self.callees = []  # functions under @triton.jit that it names
        self._own = is_tritons_own(function)
        self.defaults = function.fn.__defaults__
        self._check_defaults()
        its = self.tree.args
        self._locals = {one.arg for one in [*its.posonlyargs, *its.args, *its.kwonlyargs]}
        self._locals |= {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name) and not _is_load(node)}
        for statement in self.tree.body:
            self._visit(statement)

    def _check_defaults(self):
        if self._own:
            return
        for value in self.defaults or ():
            its = value if type(value) in (list, set) else [*value, *value.values()] if type(value) is dict else [value]
            if not all(map(_is_constant, its)):
                raise HostCode(f"{name_of(self.function)}: the default of an argument is the host's")

    def check_unchanged(self):
        """Raises HostCode when the source or a global name is another one than in the first launch."""
        self._check_defaults()
        if self.function.src is not self.source or self.function.fn.__defaults__ is not self.defaults:
            raise HostCode(f"the source of {name_of(self.function)} changed after its first launch")
        for name, value in self.names.items():
            now = _look_up(self.function.fn, name)
            if now is not value and not _same_constant(now, value):
                raise HostCode(f"{name}, which {name_of(self.function)} uses, changed after its first launch")

    def _refuse(self, node, what):
        raise HostCode(f"{name_of(self.function)}, line {self._line(node)}: {what}")

    def _leave(self, node, what):
        raise UnsupportedOnCpu(f"{name_of(self.function)}, line {self._line(node)}: {what}")

    def _line(self, node):
        return self.first_line + getattr(node, "lineno", 1) - 1

    def _visit(self, node):
        kind = type(node).__name__
        if isinstance(node, ast.AnnAssign):  # Python does not evaluate a local variable's annotation
            for one in (node.target, node.value):
                if one is not None:
                    self._visit(one)
            return
        if not self._own:
            self._check_syntax(node, kind)
        if isinstance(node, ast.Name):
            if _is_load(node) and node.id not in self._locals:
                self._check_value(node, node.id, self._global(node))
        elif isinstance(node, ast.Attribute):
            self._attribute(node)
        else:
            for child in ast.iter_child_nodes(node):
                self._visit(child)

    def _check_syntax(self, node, kind):
        if isinstance(node, _IN_DROPPED_BRANCHES):
            self._leave(node, f"{kind} is in no kernel that the interpreter runs as the compiler would")
        if isinstance(node, (ast.FunctionDef, ast.Module, ast.arguments, ast.arg)) or not (
                isinstance(node, _PARTS) or hasattr(CodeGenerator, f"visit_{kind}")):
            self._refuse(node, f"{kind} is no part of Triton's language")
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)) and not _is_load(node):
            self._refuse(node, f"a kernel cannot assign to {ast.unparse(node)}")
        if isinstance(node, ast.ListComp) and (len(node.generators) != 1 or node.generators[0].ifs):
            self._leave(node, "the compiler reads only plain comprehensions")
        if isinstance(node, ast.Call) and not isinstance(node.func, (ast.Name, ast.Attribute)):
            self._visit(node.func)  # what is refused there comes first
            self._leave(node, f"{ast.unparse(node.func)} is called")
        if isinstance(node, ast.Compare) and any(isinstance(one, (ast.Is, ast.IsNot)) for one in node.ops) and not any(
                isinstance(one, ast.Constant) for one in [node.left, *node.comparators]):
            self._leave(node, "identity of values differs between compiler and interpreter")

    def _global(self, node):
        value = _look_up(self.function.fn, node.id)
        if value is not _ABSENT:
            self.names[node.id] = value
            return value
        if node.id in _ABOUT_TYPES and not self._own:
            self._leave(node, f"{node.id} answers otherwise in the compiler than in the interpreter")
        if node.id not in _BUILTINS and not self._own:
            if hasattr(builtins, node.id):
                self._refuse(node, f"Python's {node.id} is no part of Triton's language")
            raise NameError(f"name '{node.id}' is not defined")
        return _ABSENT

    def _attribute(self, node):
        names = []
        base = node
        while isinstance(base, ast.Attribute):
            names.append(base.attr)
            base = base.value
        if not self._own:
            for name in names:
                if (name.startswith("_") and name != "_unwrap_if_constexpr") or name in _HOST_ATTRIBUTES:
                    self._refuse(node, f".{name} reaches the host's objects")
        if not isinstance(base, ast.Name) or base.id in self._locals:
            self._visit(base)
            return
        value, path = self._global(base), base.id
        for name in reversed(names):
            if not isinstance(value, types.ModuleType):
                break
            value, path = getattr(value, name), f"{path}.{name}"
        self._check_value(node, path, value)

    def _check_value(self, node, path, value):
        if type(value) in _FUNCTIONS:
            self.callees.append(value)
        elif value is not _ABSENT and not self._own and not _is_of_triton(value) and not _is_constant(value):
            self._refuse(node, f"{path} is the host's")


_ABSENT = object()


def name_of(function):
    """A kernel's name as plain text: a str of the file's own class could compute wherever it is used."""
    return str.__str__(function.fn.__name__)


def _is_load(node):
    return isinstance(node.ctx, ast.Load)


def _look_up(fn, name):
    """What the compiler takes `name` for: a variable around the function hides a global one."""
    if name in fn.__code__.co_freevars:
        try:
            return fn.__closure__[fn.__code__.co_freevars.index(name)].cell_contents
        except ValueError:  # not assigned yet
            return _ABSENT
    return fn.__globals__.get(name, _ABSENT)


def _same_constant(a, b):
    return type(a) is tl.constexpr and type(b) is tl.constexpr and type(a.value) is type(b.value) and bool(
        a.value == b.value)


def _is_of_triton(value):
    """A function or type that triton.language really holds, or one of math: `__module__` alone can be claimed."""
    if getattr(math, getattr(value, "__name__", ""), None) is value:
        return True
    module = getattr(value, "__module__", None) or ""
    if not module.startswith("triton.language"):
        return False
    found = sys.modules.get(module)
    for name in getattr(value, "__qualname__", "").split("."):
        found = getattr(found, name, None)
    return found is value


def _is_constant(value):
    """What may be baked into a kernel: no code of the host runs when it is used, and the host cannot change it."""
    if type(value) is tl.constexpr:
        return vars(value).keys() == {"value", "type"} and type(value.type) is tl.constexpr_type and _is_constant(value.value)
    if type(value) is tl.dtype:
        return all(type(one) in _OF_A_DTYPE for one in vars(value).values())
    if isinstance(value, type):
        return _is_plain_namedtuple(value)
    return type(value) in _PLAIN or type(value) in _FUNCTIONS or (_is_plain_tuple(value) and all(map(_is_constant, value)))


def _is_plain_tuple(value):
    return type(value) is tuple or _is_plain_namedtuple(type(value))


def _is_plain_namedtuple(kind):
    """Whether namedtuple (or typing.NamedTuple) made all of it: reading a field or making a value runs nothing else."""
    own = vars(kind)
    fields = own.get("_fields")
    if type(kind) is not type or kind.__bases__ != (tuple,) or type(fields) is not tuple:
        return False
    made = vars(collections.namedtuple("made", fields))
    for name, value in own.items():
        if name in ("__annotations__", "__orig_bases__"):
            continue
        if name not in made or type(value) is not type(made[name]):
            return False
        mine, its = (getattr(one, "__func__", one) for one in (value, made[name]))
        if isinstance(its, types.FunctionType) and not _same_code(mine, its):
            return False
    return all(map(_is_constant, kind.__new__.__defaults__ or ()))


def _same_code(mine, its):
    return type(mine) is types.FunctionType and mine.__code__ == its.__code__ and \
        mine.__code__.co_filename == its.__code__.co_filename


_bodies = {}


def check(function, arguments):
    """Holds a kernel and all that it calls to the language, and its arguments to data, those of tl.constexpr to constants.

    arguments: values by name, as they were bound. Raises HostCode or UnsupportedOnCpu.
    """
    todo, seen = [function], set()
    constants = {one.name for one in function.params if one.is_constexpr}
    for name, value in arguments.items():
        todo.extend(_functions_in(value))
        if not (_is_constant(value) or (name not in constants and _is_data(value))):
            if callable(value):
                raise HostCode(f"{name_of(function)}: argument {name} is the host's: {type(value).__name__}")
            raise UnsupportedOnCpu(f"{name_of(function)}: argument {name} is of type {type(value).__name__}")
    while todo:
        one = todo.pop()
        if one in seen or not hasattr(one, "parse"):
            continue
        seen.add(one)
        body = body_of(one)
        if body is not None:
            todo.extend(body.callees)


def _functions_in(value):
    if type(value) in _FUNCTIONS:
        yield value
    elif type(value) is tl.constexpr:
        yield from _functions_in(value.value)
    elif isinstance(value, tuple):
        for one in value:
            yield from _functions_in(one)


def _is_data(value):
    if _is_plain_tuple(value):
        return all(_is_constant(one) or _is_data(one) for one in value)
    if type(value) in _TENSORS:
        return not any(hasattr(torch.Tensor, name) for name in vars(value))  # which would hide the tensor's own
    if type(value) is TensorWrapper:
        return vars(value).keys() == _OF_A_WRAPPER and _is_constant(value.dtype) and _is_tensor(value.base)
    if type(value) is TensorDescriptor:
        sizes = (value.shape, value.strides, value.block_shape)
        return vars(value).keys() == _OF_A_DESCRIPTOR and type(value.padding) is str and _is_tensor(value.base) and all(
            type(one) in (list, tuple, torch.Size) and all(type(size) is int for size in one) for one in sizes)
    return False


def _is_tensor(value):
    return type(value) in _TENSORS and _is_data(value)


def body_of(function):
    """The function's Body: checked the first time, found unchanged later. None for what only runs while compiling."""
    if type(function) not in _FUNCTIONS:
        raise HostCode(f"{type(function).__name__} is not Triton's own kind of function")
    if type(function) is not JITFunction:
        if not is_tritons_own(function):
            raise UnsupportedOnCpu(f"{name_of(function)} is Python for the compiler to run, and the interpreter's values are others")
        return None
    if id(function) not in _bodies:
        _bodies[id(function)] = Body(function)  # holds the function, so that its id is not given again
    body = _bodies[id(function)]
    body.check_unchanged()
    return body
