"""The static screen: what a submission's syntax tree shows before any of it has run.

It runs in the candidate's sandboxed process, because a hostile text may bring a parser down, and before the file is
loaded, so that its answer can be believed. `forbidden` refuses the kernel by policy; `decoys` is a flag.

No reading of Python is complete. This one closes what is known: it follows names that stand for modules, under whatever
name another module holds them, and refuses a module used as a value (in a list, as an argument), where they could no
longer be followed. screen_names.py says what may be used.
"""

import ast
import functools
import importlib
import json
import re
import sys
import types

from anneal_eval.reach import binds, chain, without_unreached
from anneal_eval.screen_names import (
    ACCESSORS, ARRAYS, BOUND_DUNDERS, BUILTINS, CALLS, DUNDERS, FLAGS, FOLLOWED, HELD_MODULES, HOOKS, INTEGER_TASK, KINDS, MODULES,
    NEVER_ASSIGNED, ONLY, PATHS, PRIVATE_ALLOWED, REASON, SETTINGS)

KERNEL, TYPE = "<kernel>", "<type>"  # paths of what triton.jit and type() return
KERNEL_MAKERS = {"triton.jit", "triton.autotune", "triton.heuristics"}
MOST_LITERAL_CHARS = 4096  # a longer literal in a kernel file is a payload
MOST_ALIASES = 32  # of one name, and of dots in one path: more is an attempt to be slow


def screen(path, entry=None, integer_task=False):
    """The findings in the file, as JSON text: {class, message, detail, forbidden: [text], decoys: [names]}.

    entry: the function that is called; what it cannot come to is taken out (reach.py). None: all is read.
    integer_task: the task is a product of int8 that the kernel must make; what torch has of that kind fails its call.
    """
    with open(path, "rb") as file:
        source = file.read()
    try:
        tree = ast.parse(source, "kernel.py")  # bytes: decoded as they will be when the file is loaded
        tree.body = _without_main(tree.body)
        decoys = _decoys(tree)
        if entry is not None:
            tree = ast.parse(reached_source(source, entry), "kernel.py")
            tree.body = _without_main(tree.body)
        findings = _Findings(tree)
        findings.check_encoding(source)
        findings.visit(tree)
    except SyntaxError as error:
        return _answer("syntax_error", f"SyntaxError: {error.msg} (line {error.lineno})", _quoted(error), [], [])
    except (RecursionError, MemoryError):
        return _answer("syntax_error", "the code is nested too deeply", "", [], [])
    except ValueError as error:  # a NUL byte
        return _answer("syntax_error", f"ValueError: {error}", "", [], [])
    if integer_task and findings.integer_task:
        return _answer("forbidden_api", findings.integer_task[0], "", [], [])
    return _answer("ok", "", "", list(findings.forbidden), decoys)


def reached_source(source, entry):
    """The text of a kernel's file (bytes) as it is screened and loaded: without what its entry cannot come to (reach.py)."""
    tree = ast.parse(source)
    running = ast.Module(_without_main(tree.body), [])
    return without_unreached(source, tree, running.body, entry, _Aliases(running).of)


def _answer(failure_class, message, detail, forbidden, decoys):
    return json.dumps({"class": failure_class, "message": message, "detail": detail, "forbidden": forbidden[:16],
                       "decoys": decoys[:16]})


def _quoted(error):
    text = (error.text or "").rstrip("\n").encode("utf-8", "replace").decode("utf-8")
    return f"line {error.lineno}: {text}"[:500]


def _without_main(body):
    """The module's statements without those below `if __name__ == "__main__"`, which nobody runs here."""
    kept = []
    for node in body:
        test = ast.unparse(node.test) if isinstance(node, ast.If) and isinstance(node.test, ast.Compare) else ""
        if test in ("__name__ == '__main__'", "'__main__' == __name__"):
            kept.extend(node.orelse)
        else:
            kept.append(node)
    return kept


def _is_dunder(name):
    return name.startswith("__") and name.endswith("__")


@functools.lru_cache(maxsize=4096)
def _within(path):
    """(`path` with the modules that it goes through under their own names, whether it is a module): `os` and `torch.nn.functional.os`
    are one. Nothing is run for it but the import of what MODULES names."""
    names = path.split(".")
    if names[0] in MODULES and names[0] not in sys.modules:
        try:
            importlib.import_module(names[0])
        except ImportError:
            return path, False
    found, at = sys.modules.get(names[0]), 1
    if names[0] not in MODULES or found is None:
        return path, False
    while at < len(names):
        inner = vars(found).get(names[at], sys.modules.get(f"{found.__name__}.{names[at]}"))
        if not isinstance(inner, types.ModuleType):
            break
        found, at = inner, at + 1
    own = {"posixpath": "os.path"}.get(found.__name__, found.__name__)
    return ".".join([own, *names[at:]]), at == len(names)


def _is_followed(path):
    """Whether names that stand for `path` are followed, and it is not used as a value itself."""
    return path in FOLLOWED or _within(path)[1]


class _Aliases:
    """Which dotted paths a name of the file may stand for. Scopes are not told apart: a name is what it is anywhere."""

    def __init__(self, tree):
        self.paths = {}
        self.too_many = False
        bindings = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    self._add(one.asname or one.name.split(".")[0], {one.name if one.asname else one.name.split(".")[0]})
            elif isinstance(node, ast.ImportFrom):
                for one in node.names:
                    self._add(one.asname or one.name, {f"{node.module}.{one.name}"})
            else:
                bindings.extend(self._bindings(node))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        changed, passes = True, 0
        while changed and not self.too_many:
            changed = any([self._add(target, self.of(value)) for target, value in bindings])
            changed |= any([self._add(one.name, {KERNEL}) for one in functions
                            if any(self._makes_kernel(decorator) for decorator in one.decorator_list)])
            passes += 1
            self.too_many |= passes > MOST_ALIASES

    def _add(self, name, found):
        paths = self.paths.setdefault(name, set())
        new = found - paths
        if len(paths) + len(new) > MOST_ALIASES or any(one.count(".") > MOST_ALIASES for one in new):
            self.too_many = True
            return False
        paths |= new
        return bool(new)

    def _bindings(self, node):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from self._pairs(target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value:
            yield from self._pairs(node.target, node.value)
        elif isinstance(node, ast.withitem) and node.optional_vars:
            yield from self._pairs(node.optional_vars, node.context_expr)
        elif isinstance(node, (ast.For, ast.comprehension)) and isinstance(node.iter, (ast.Tuple, ast.List)):
            for one in node.iter.elts:
                yield from self._pairs(node.target, one)

    def _pairs(self, target, value):
        if isinstance(target, ast.Name):
            yield target.id, value
        elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
            for one, its in zip(target.elts, value.elts):
                yield from self._pairs(one, its)

    def of(self, node):
        """The paths that an expression may stand for: none for what the file computes itself."""
        base, names = chain(node)
        if isinstance(base, ast.Name):
            found = self.paths.get(base.id, set())
        elif isinstance(base, ast.Call):
            found = self._of_call(base)
        elif isinstance(base, ast.IfExp):
            found = self.of(base.body) | self.of(base.orelse)
        elif isinstance(base, ast.BoolOp):
            found = set().union(*(self.of(one) for one in base.values))
        elif isinstance(base, ast.NamedExpr):
            found = self.of(base.value)
        else:
            found = set()
        return {".".join([one, *names]) for one in found}

    def _of_call(self, node):
        if isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1:
            return {TYPE}
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 1:
            name = node.args[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                return {f"{one}.{name.value}" for one in self.of(node.args[0])}
        return {KERNEL} if self._makes_kernel(node.func) else set()

    def _makes_kernel(self, node):
        """triton.jit, or triton.autotune(...)."""
        return bool(self.of(node) & KERNEL_MAKERS) or (isinstance(node, ast.Call) and self._makes_kernel(node.func))


class _Findings(ast.NodeVisitor):
    def __init__(self, tree):
        self.forbidden = {}  # text -> None, in the order found
        self.integer_task = []  # what a task of int8 products does not allow
        self.aliases = _Aliases(tree)
        self.asks_kinds = not binds(tree, "isinstance")
        self.local_names = []  # a set for each function around the node: they hide builtins
        self.in_class, self.below_class = False, False
        self.module_level = set(map(id, tree.body))
        if self.aliases.too_many:
            self._refuse(tree.body[0], "names stand for too many things")

    def _refuse(self, node, what):
        self.forbidden[f"line {node.lineno}: {what}"] = None

    def check_encoding(self, source):
        # Python looks for it in the first two lines, and ends lines at \r too.
        for number, line in enumerate(re.split(rb"\r\n|\r|\n", source[:65536])[:2], 1):
            found = re.search(rb"#.*coding[:=][ \t]*([-\w.]+)", line)
            if found and found[1].lower().replace(b"_", b"-") not in (b"utf-8", b"utf8"):
                self.forbidden[f"line {number}: the encoding is not UTF-8"] = None

    # Paths and names.

    def _check_path(self, node, path):
        """What the policy says of `a.b.c` where `a` is a module: as it is written, and as its modules call themselves."""
        own = _within(path)[0]
        self._check_spelling(node, path)
        if own != path:
            self._check_spelling(node, own)
            if own.split(".")[0] not in MODULES:
                self._refuse(node, f"{own} is reached through another module")
        self._check_names(node, path.split(".")[1:], path.split(".")[0] == "re")

    def _check_spelling(self, node, path):
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            prefix, last = ".".join(parts[:end]), parts[end - 1]
            above = ".".join(parts[:end - 1])
            if prefix in INTEGER_TASK:
                self.integer_task.append(f"line {node.lineno}: {prefix} must not be used in this task")
            if prefix in PATHS:
                self._refuse(node, f"{prefix} {PATHS[prefix]}")
            elif above in ONLY and last not in ONLY[above]:
                self._refuse(node, f"{prefix} is not for kernels")
            elif end > 1 and parts[0] in MODULES and last.startswith("_") and not _is_dunder(last) \
                    and prefix not in PRIVATE_ALLOWED:
                self._refuse(node, f"{prefix} reaches below {parts[0]}'s interface")

    def _check_names(self, node, names, of_re=False):
        """What the policy says of names behind dots, whatever stands before them."""
        for i, name in enumerate(names):
            if name in REASON:
                self._refuse(node, f"{name} {REASON[name]}")
            elif name in HELD_MODULES:
                self._refuse(node, f"{name} is reached through another module")
            elif name == "compile" and not of_re:
                self._refuse(node, "compile uses torch's compiler")
            elif name == "__class__" and names[i + 1:] == ["__name__"]:
                continue
            elif _is_dunder(name) and name not in DUNDERS:
                self._refuse(node, f"{name} is the interpreter's own")

    def _check_access(self, node, value, names):
        """`value.names` is read or written: `value` is a name or any expression."""
        paths = self.aliases.of(value)
        for path in paths:
            self._check_path(node, ".".join([path, *names]))
        if not paths:
            self._check_names(node, names)

    def _check_value(self, node):
        """A module is written before a dot or given another name, and nowhere else: it could not be followed."""
        for path in self.aliases.of(node):
            if _is_followed(path):
                self._refuse(node, f"{path} is used as a value")

    def _check_store(self, node, value, name):
        """`value.name` is assigned to or deleted."""
        if name in NEVER_ASSIGNED or _is_dunder(name):
            self._refuse(node, f"assigns to {name}")
        base = value
        while isinstance(base, (ast.Attribute, ast.Subscript)):
            base = base.value
        paths = self.aliases.of(value)
        if name in FLAGS and paths and all(f"{path}.".startswith("torch.backends.") for path in paths):
            return
        if not isinstance(base, ast.Name) and not (isinstance(base, ast.Call) and ast.unparse(base.func) == "super"):
            self._refuse(node, f"assigns to {name} of what an expression returns")
        for path in sorted(paths or self.aliases.of(base)):
            self._refuse(node, f"assigns to {name} of {path}")

    # Imports.

    def visit_Import(self, node):
        for one in node.names:
            self._check_import(node, one.name)
            self._check_bound(node, one.asname)

    def visit_ImportFrom(self, node):
        module = node.module or ""
        for one in node.names:
            self._check_import(node, f"{module}.{one.name}")
            self._check_bound(node, one.asname or one.name)
            if one.name == "*" and not module.startswith("triton.language") and module not in ("math", "typing"):
                self._refuse(node, f"imports all of {module}")

    def _check_import(self, node, path):
        if path in KINDS:
            return
        if path.split(".")[0] not in MODULES:
            self._refuse(node, f"imports {path.removesuffix('.*')}")
        self._check_path(node, path)

    # Expressions.

    def visit_Attribute(self, node):
        self._object(node)
        if isinstance(node.ctx, ast.Load):
            self._check_value(node)
        else:
            self._check_store(node, node.value, node.attr)

    def _object(self, node):
        """What stands before a dot: a module may."""
        base, names = chain(node)
        if names:
            self._check_access(node, base, names)
        if isinstance(base, ast.Name):
            self._check_private(base)
            self._check_builtin(base)
        else:
            self.visit(base)

    def visit_Subscript(self, node):
        if not isinstance(node.ctx, ast.Load):
            written = self.aliases.of(node.value)
            if isinstance(node.value, ast.Name):  # else it may be another function's variable
                written = {one for one in written if _is_followed(one) or one == "os.environ"}
            for path in written:
                if path != "os.environ" or not _is_setting(node.slice):
                    self._refuse(node, f"assigns to an element of {path}")
        self.generic_visit(node)

    def visit_Name(self, node):
        self._check_private(node)
        if not isinstance(node.ctx, ast.Load):
            self._check_bound(node, node.id)
            return
        self._check_builtin(node)
        self._check_value(node)

    def _check_private(self, node):
        """In a class Python reads `__name` as `_Class__name`, which may stand for anything."""
        if self.below_class and node.id.startswith("__") and not node.id.endswith("__"):
            self._refuse(node, f"{node.id} is another name in a class")

    def _check_builtin(self, node):
        if node.id in BUILTINS | ACCESSORS and not self._is_local(node.id):
            self._refuse(node, f"uses {node.id}")
        elif _is_dunder(node.id) and node.id not in DUNDERS:
            self._refuse(node, f"{node.id} is the interpreter's own")

    def visit_Call(self, node):
        function = node.func.id if isinstance(node.func, ast.Name) and not self._is_local(node.func.id) else None
        # hasattr says no more than whether there is one.
        if function in ACCESSORS | {"hasattr"} and len(node.args) > 1:
            if function in ACCESSORS:
                self._accessor(node, function)
            self._object(node.args[0])
            for one in [*node.args[1:], *node.keywords]:
                self.visit(one)
        elif function == "isinstance" and len(node.args) == 2 and not node.keywords and self.asks_kinds:
            self.visit(node.args[0])
            kinds = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            for one in [one for one in kinds if not self._is_kind(one)]:
                self.visit(one)
        elif self._is_array_of_numbers(node):
            for one in node.keywords:
                self.visit(one)
        elif called := self.aliases.of(node.func) & set(CALLS):
            for path in called:
                self._check_call(node, path)
            self._object(node.func)
            for one in [*node.args, *node.keywords]:
                self.visit(one)
        else:
            self.generic_visit(node)

    def _is_kind(self, node):
        """A class of Triton's that a kernel is asked for: nothing is done to it."""
        paths = self.aliases.of(node)
        return isinstance(chain(node)[0], ast.Name) and bool(paths) and paths <= KINDS

    def _is_array_of_numbers(self, node):
        """An array of numbers that are written out: no tensor becomes one by it."""
        paths = self.aliases.of(node.func)
        return isinstance(chain(node.func)[0], ast.Name) and bool(paths) and paths <= ARRAYS and bool(node.args) \
            and all(map(_is_number, node.args)) and all(one.arg == "dtype" for one in node.keywords)

    def _check_call(self, node, path):
        most, keywords = CALLS[path]
        if path == "os.environ.setdefault" and not (node.args and _is_setting(node.args[0])):
            self._refuse(node, "assigns to an element of os.environ")
        if len(node.args) > most or any(isinstance(one, ast.Starred) for one in node.args) \
                or any(one.arg not in keywords for one in node.keywords):
            self._refuse(node, f"{path} is called with more than a kernel needs")

    def _accessor(self, node, accessor):
        value, name = node.args[:2]
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)) or isinstance(value, ast.Starred):
            self._refuse(node, f"{accessor} of a name that is not written out")
            return
        base, names = chain(value)
        self._check_access(node, base, [*names, name.value])
        if accessor == "getattr":
            self._check_value(node)
        else:
            self._check_store(node, value, name.value)

    def visit_Constant(self, node):
        if isinstance(node.value, (str, bytes)) and len(node.value) > MOST_LITERAL_CHARS:
            self._refuse(node, f"a literal of {len(node.value)} characters")

    def visit_MatchClass(self, node):
        self._check_names(node, node.kwd_attrs)
        self.generic_visit(node)

    # Statements.

    def visit_Expr(self, node):
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)):  # a docstring
            self.generic_visit(node)

    def visit_Assign(self, node):
        for target in node.targets:
            self.visit(target)
        if not all(self._is_alias(target, node.value) for target in node.targets):
            self.visit(node.value)

    def _is_alias(self, target, value):
        """A name for a module, so not a use of the module as a value. Its own path is checked as ever."""
        base, names = chain(value)
        if not (isinstance(target, ast.Name) and isinstance(base, ast.Name)
                and any(map(_is_followed, self.aliases.of(value)))):
            return False
        self._check_access(value, base, names)
        return not self.in_class  # what a class holds is reached through the class

    def visit_ClassDef(self, node):
        self._check_bound(node, node.name)
        before = self.in_class, self.below_class, self.local_names
        self.in_class = self.below_class = True
        self.local_names = []  # a class body may look past the names of the function around it
        self.generic_visit(node)
        self.in_class, self.below_class, self.local_names = before

    def visit_FunctionDef(self, node):
        self._check_bound(node, node.name)
        if node.name in HOOKS or (id(node) in self.module_level and _is_dunder(node.name)):
            self._refuse(node, f"defines {node.name}")
        self._function(node, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node):
        self._function(node, [node.body])

    def _function(self, node, body):
        # What is evaluated around the function comes first: its own names do not hide builtins there.
        for one in [*getattr(node, "decorator_list", []), *node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(one)
        its = node.args
        arguments = [*its.posonlyargs, *its.args, *its.kwonlyargs, *filter(None, (its.vararg, its.kwarg))]
        for one in [*arguments, node]:
            annotation = getattr(one, "annotation", None) or getattr(one, "returns", None)
            if annotation is not None and not self._is_kind(annotation):
                self._annotation(annotation)
        for one in arguments:
            self._check_bound(one, one.arg)
        before, self.in_class = self.in_class, False
        self.local_names.append({one.arg for one in arguments} | _assigned(body))
        for one in body:
            self.visit(one)
        self.local_names.pop()
        self.in_class = before

    def visit_AnnAssign(self, node):
        self._annotation(node.annotation)
        self.visit(node.target)
        if node.value and not self._is_alias(node.target, node.value):
            self.visit(node.value)

    def _annotation(self, node):
        if node is None:
            return
        self.visit(node)
        for text in [one for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)]:
            try:
                quoted = ast.parse(text.value.strip(), mode="eval").body
            except (SyntaxError, ValueError):
                continue
            for one in ast.walk(quoted):
                ast.copy_location(one, text)
            self.visit(quoted)

    def visit_ExceptHandler(self, node):
        self._check_bound(node, node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node):
        self._check_bound(node, node.name)
        self.generic_visit(node)

    visit_MatchStar = visit_MatchAs

    def visit_MatchMapping(self, node):
        self._check_bound(node, node.rest)
        self.generic_visit(node)

    def _check_bound(self, node, name):
        """`__name__` given another value would open what stands below `if __name__ == "__main__"`."""
        if name and _is_dunder(name) and not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) \
                and name not in BOUND_DUNDERS:
            self._refuse(node, f"assigns to {name}")

    def _is_local(self, name):
        return any(name in names for names in self.local_names)


def _is_setting(node):
    return isinstance(node, ast.Constant) and node.value in SETTINGS


def _is_number(node):
    """A number, or lists of numbers, written out."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(map(_is_number, node.elts))
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float, complex))


def _assigned(body):
    """The names that a function's own statements bind. What `global` names is not its own."""
    bound, elsewhere, todo = set(), set(), list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            elsewhere |= set(node.names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp,
                               ast.DictComp, ast.GeneratorExp)):
            continue
        todo.extend(ast.iter_child_nodes(node))
    return bound - elsewhere


def _decoys(tree):
    """Functions under @triton.jit that nothing else in the file names."""
    kernels, used = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(_is_jit(one) for one in node.decorator_list):
            kernels.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used.add(node.id)
        elif isinstance(node, ast.Attribute):
            used.add(node.attr)
    return sorted(kernels - used)


def _is_jit(decorator):
    text = ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
    return "jit" in text and not text.startswith("torch.")
