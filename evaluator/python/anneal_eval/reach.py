"""What of a file its entry can come to, by any name written in it. Tests, benchmarks and imports that nobody comes to are taken
out of the text before it is screened and loaded: what does not run is not held against a kernel, and what is not screened is not
there to be run, by whatever way code might still find it.

Reached is, whatever it stands for there, each name and each word of a text (docstrings apart) of code that is reached itself.
What is written behind a dot is not.
"""

import ast
import re

from anneal_eval.screen_names import KEEPS_UNCALLED, MODULES, UNUSED


def without_unreached(source, tree, body, entry, paths_of):
    """`source` (bytes) with the functions emptied that are not reached from `entry`, and without the imports of UNUSED modules
    that are not. Lines keep their numbers. `source` itself where whole lines do not do it. Changes `tree`.

    tree: of the source. body: its statements that run. paths_of: the paths that an expression may stand for (screen.py).
    """
    others = _bound_by_code(tree)

    def waits(node):
        return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("__") \
            and node.body[0].lineno > node.lineno \
            and all(_keeps_uncalled(one, paths_of, others) for one in node.decorator_list)

    waiting, todo, reached = {}, [entry, "kernel_function"], set()
    for node in body:
        if waits(node):
            waiting.setdefault(node.name, []).append(node)
        for one in _evaluated_around(node) if waits(node) else [node]:
            todo.extend(_words(one))
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            for one in [one for node in waiting.pop(name, ()) for one in node.body]:
                todo.extend(_words(one))
    edits = []  # (first line, last line, the text in their place)
    for node in [node for nodes in waiting.values() for node in nodes]:
        first = min([node.body[0].lineno, *(one.lineno for one in getattr(node.body[0], "decorator_list", ()))])
        edits.append((first, node.body[-1].end_lineno, "pass"))
        node.body = [ast.Pass()]
    imports = _Imports(reached, set(filter(None, map(_dotted, ast.walk(tree)))))
    imports.visit(tree)
    edited = _edited(source, edits + imports.edits)
    try:
        return edited if ast.dump(ast.parse(edited)) == ast.dump(tree) else source
    except (SyntaxError, ValueError):
        return source


def _edited(source, edits):
    pieces = re.split(rb"(\r\n|\r|\n)", source)  # lines as the parser counts them, and what ends each
    for first, last, text in edits:
        line = pieces[2 * (first - 1)]
        pieces[2 * (first - 1)] = line[:len(line) - len(line.lstrip())] + text.encode()
        for number in range(first, last):
            pieces[2 * number] = b""
    return b"".join(pieces)


def binds(tree, name):
    """Whether the file gives `name` a meaning of its own, by an import too."""
    imported = {one.asname or one.name.split(".")[0] for node in ast.walk(tree)
                if isinstance(node, (ast.Import, ast.ImportFrom)) for one in node.names}
    return name in imported | _bound_by_code(tree)


def _keeps_uncalled(decorator, paths_of, others):
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    base, paths = chain(function)[0], paths_of(function)
    return isinstance(base, ast.Name) and base.id not in others and bool(paths) and paths <= KEEPS_UNCALLED


def _bound_by_code(tree):
    """Names that other statements than imports bind, in any scope."""
    bound = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            bound |= set() if isinstance(node.ctx, ast.Load) else {node.id}
        elif not isinstance(node, (ast.alias, ast.Attribute, ast.keyword, ast.Constant)):
            bound |= {text for _, value in ast.iter_fields(node) for text in _texts(value)}
    return bound


def _evaluated_around(node):
    """What runs when the function is defined."""
    its = node.args
    arguments = [*its.posonlyargs, *its.args, *its.kwonlyargs, *filter(None, (its.vararg, its.kwarg))]
    return [*node.decorator_list, *its.defaults, *filter(None, its.kw_defaults),
            *filter(None, [node.returns, *(one.annotation for one in arguments)])]


def chain(node):
    """The expression that `base.b.c` starts from, and the names behind it."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return node, names[::-1]


def _dotted(node):
    """`a.b.c` as it is written; None of all other expressions."""
    base, names = chain(node)
    return ".".join([base.id, *names]) if names and isinstance(base, ast.Name) else None


_ELSEWHERE = {(ast.Attribute, "attr"), (ast.keyword, "arg")}  # names of others than the module's


def _words(tree):
    words, todo = set(), [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)) or _is_docstring(node):
            continue
        for field, value in ast.iter_fields(node):
            for text in _texts(value) if (type(node), field) not in _ELSEWHERE else ():
                words.update(re.findall(r"\w+", text))
        todo.extend(ast.iter_child_nodes(node))
    return words


def _texts(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode("latin-1")
    elif isinstance(value, list):
        yield from (one for one in value if isinstance(one, str))


def _is_docstring(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


class _Imports(ast.NodeTransformer):
    """Takes out of import statements what is not reached."""

    def __init__(self, reached, paths):
        """paths: what is written with dots, as `torch.utils`."""
        self.reached, self.paths, self.edits = reached, paths, []

    def visit_ClassDef(self, node):
        return node  # what a class imports is reached behind a dot

    def visit_Import(self, node):
        kept = []
        for one in node.names:
            if one.name not in UNUSED or self._is_reached(one.asname) or (not one.asname and one.name in self.paths):
                kept.append(one)
            elif not one.asname and one.name.split(".")[0] in MODULES:  # it binds the package, whose paths are read where they are used
                kept.append(ast.alias(one.name.split(".")[0]))
            elif not one.asname and self._is_reached(one.name.split(".")[0]):
                kept.append(one)
        return self._with(node, kept)

    def visit_ImportFrom(self, node):
        def dropped(one):
            return node.level == 0 and one.name != "*" and not self._is_reached(one.asname or one.name) \
                and (node.module in UNUSED or f"{node.module}.{one.name}" in UNUSED)

        return self._with(node, [one for one in node.names if not dropped(one)])

    def _is_reached(self, name):
        return name is not None and (name in self.reached or name.startswith("__"))

    def _with(self, node, names):
        if names == node.names:
            return node
        node.names = names
        left = node if names else ast.Pass()
        self.edits.append((node.lineno, node.end_lineno, ast.unparse(left)))
        return left
