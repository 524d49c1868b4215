"""The static screen: what a submission's syntax tree shows before any of it has run.

It runs in the candidate's sandboxed process, because a hostile text may bring a parser down, and before the file is
loaded, so that its answer can be believed. `forbidden` refuses the kernel by policy; `decoys` is a flag.
"""

import ast
import json

# Modules with which a file reaches what a kernel and its launch never need: other code, other processes, memory.
FORBIDDEN_MODULES = {
    "ctypes", "cffi", "gc", "importlib", "imp", "runpy", "marshal", "pickle", "shelve", "dill", "cloudpickle", "subprocess",
    "multiprocessing", "threading", "_thread", "concurrent", "asyncio", "socket", "signal", "mmap", "pty", "fcntl",
    "urllib", "http", "requests", "cupy", "numba", "pycuda", "jax", "tensorflow", "cuda", "builtins",
    "torch.utils.cpp_extension", "torch.utils._python_dispatch", "torch.overrides", "torch._dynamo", "torch._inductor",
    "torch.library", "torch.multiprocessing", "anneal_eval",
}
# Attributes, whatever they are taken from, with the reason that the policy gives.
FORBIDDEN_ATTRIBUTES = {
    "_getframe": "reads other frames", "f_locals": "reads other frames", "f_globals": "reads other frames",
    "f_back": "reads other frames", "settrace": "hooks the interpreter", "setprofile": "hooks the interpreter",
    "__subclasses__": "searches the interpreter", "__globals__": "searches the interpreter",
    "__code__": "replaces code", "_C": "reaches below torch's interface", "_inductor": "uses torch's compiler",
    "_dynamo": "uses torch's compiler", "inductor": "uses torch's compiler", "cpp_extension": "builds other code",
    "load_inline": "builds other code", "TorchDispatchMode": "hooks torch", "TorchFunctionMode": "hooks torch",
    "__torch_function__": "hooks torch", "__torch_dispatch__": "hooks torch", "_make_subclass": "hooks torch",
    "_make_wrapper_subclass": "hooks torch",
}
FORBIDDEN_CALLS = {"exec", "eval", "compile", "__import__", "breakpoint", "input"}
MOST_LITERAL_CHARS = 4096  # a longer literal in a kernel file is a payload


def screen(path):
    """The findings in the file, as JSON text: {class, message, detail, forbidden: [text], decoys: [names]}."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    try:
        tree = ast.parse(source, "kernel.py")
        findings = _Findings()
        findings.visit(tree)
    except SyntaxError as error:
        return _answer("syntax_error", f"SyntaxError: {error.msg} (line {error.lineno})", _quoted(error), [], [])
    except (RecursionError, MemoryError):
        return _answer("syntax_error", "the code is nested too deeply", "", [], [])
    except ValueError as error:  # a NUL byte
        return _answer("syntax_error", f"ValueError: {error}", "", [], [])
    return _answer("ok", "", "", findings.forbidden, findings.decoys(tree))


def _answer(failure_class, message, detail, forbidden, decoys):
    return json.dumps({"class": failure_class, "message": message, "detail": detail, "forbidden": forbidden[:16],
                       "decoys": decoys[:16]})


def _quoted(error):
    text = (error.text or "").rstrip("\n").encode("utf-8", "replace").decode("utf-8")
    return f"line {error.lineno}: {text}"[:500]


def _dotted(node):
    """`a.b.c` as text, or None."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(names)])


class _Findings(ast.NodeVisitor):
    def __init__(self):
        self.forbidden = []
        self.torch_names = {"torch"}

    def _refuse(self, node, what):
        self.forbidden.append(f"line {node.lineno}: {what}")

    def visit_Import(self, node):
        for alias in node.names:
            self._module(node, alias.name)
            if alias.name == "torch" and alias.asname:
                self.torch_names.add(alias.asname)

    def visit_ImportFrom(self, node):
        module = node.module or ""
        self._module(node, module)
        for alias in node.names:
            self._module(node, f"{module}.{alias.name}")
            if alias.name in FORBIDDEN_ATTRIBUTES:
                self._refuse(node, f"{alias.name} {FORBIDDEN_ATTRIBUTES[alias.name]}")
            if module == "torch" and alias.name in ("ops", "compile", "_ops"):
                self._refuse(node, f"torch.{alias.name} stands in for a kernel")

    def _module(self, node, name):
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            if ".".join(parts[:end]) in FORBIDDEN_MODULES:
                self._refuse(node, f"imports {name}")
                return

    def visit_Attribute(self, node):
        if node.attr in FORBIDDEN_ATTRIBUTES:
            self._refuse(node, f"{node.attr} {FORBIDDEN_ATTRIBUTES[node.attr]}")
        dotted = _dotted(node)
        if dotted:
            root, _, rest = dotted.partition(".")
            if root in self.torch_names and rest in ("ops", "compile", "jit.script", "jit.trace", "_ops"):
                self._refuse(node, f"torch.{rest} stands in for a kernel")
            if dotted == "sys.modules":
                self._refuse(node, "sys.modules reaches other modules")
        self.generic_visit(node)

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name):
            if node.func.id in FORBIDDEN_CALLS:
                self._refuse(node, f"calls {node.func.id}")
            if node.func.id in ("getattr", "setattr", "delattr", "vars") and node.args and _dotted(node.args[0]):
                root = _dotted(node.args[0]).split(".")[0]
                if root in self.torch_names | {"triton", "tl", "sys"}:
                    self._refuse(node, f"{node.func.id} on {root}")
        self.generic_visit(node)

    def visit_Assign(self, node):
        for target in node.targets:
            dotted = _dotted(target) if isinstance(target, ast.Attribute) else None
            if dotted and dotted.split(".")[0] in self.torch_names | {"triton", "tl", "time", "sys"}:
                self._refuse(node, f"assigns to {dotted}")
        self.generic_visit(node)

    def visit_Constant(self, node):
        if isinstance(node.value, (str, bytes)) and len(node.value) > MOST_LITERAL_CHARS:
            self._refuse(node, f"a literal of {len(node.value)} characters")

    @staticmethod
    def decoys(tree):
        """Functions under @triton.jit that nothing else in the file names."""
        kernels, used = {}, set()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and any("jit" in (_dotted(_callee(d)) or "") for d in node.decorator_list):
                kernels[node.name] = node
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                used.add(node.id)
            elif isinstance(node, ast.Attribute):
                used.add(node.attr)
        return sorted(name for name in kernels if name not in used)


def _callee(decorator):
    return decorator.func if isinstance(decorator, ast.Call) else decorator
