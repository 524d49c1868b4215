"""Has the hostile kernels judged without the defences that they name, as far as those are the evaluator's Python.

    defences.py ANNEAL FOLDER [NAME...]   all of them, or those that name one of these DEFENCES; CPU device; 10 minutes

A kernel of tests/exploits says in its `# Defence:` line what refuses it. Without that (without all of it, where there are
several) its verdict must be another one than declared: else the kernel does not test what it says, and is told as `kept`;
exit 1 then. Defences are switched off in copies of evaluator/python in FOLDER. Those in C++ (poisoned outputs, aliases,
changed inputs, timing) are not among these.
"""

import os
import pathlib
import re
import shutil
import sys

import declared

ROOT = pathlib.Path(__file__).resolve().parents[2]
# name: (what a Defence line says of it, file, its text, the text without it)
DEFENCES = {
    "reach": (r"what is not screened is not loaded", "candidate.py", "            self._take_out_what_is_not_reached()\n", ""),
    "seal": (r"decoys \(seal\.py\)", "candidate.py",
             "with self.host.seal.call(tensors) if sealed else contextlib.nullcontext():", "with contextlib.nullcontext():"),
    "record": (r"operators are recorded|operators goes on while", "host_operators.py",
               "        ordered = sorted(", "        return {}\n        ordered = sorted("),
    "own_methods": (r"the record keeps torch's own methods", "host_operators.py",
                    "= torch.Tensor.numel, torch.Tensor.element_size, torch.Tensor.untyped_storage",
                    "= (lambda t: t.numel()), (lambda t: t.element_size()), (lambda t: t.untyped_storage())"),
    "left_out": (r"answer is the same|answer changes", "candidate.py",
                 "        self.left_out, self.host.poisoned = left_out, True\n",
                 '        if left_out == KERNELS:\n            return _outcome("runtime_error", "", ""), []\n'
                 "        self.left_out, self.host.poisoned = left_out, True\n"),
    "sum": (r"operators are added up over a call", "host_operators.py",
            "self.elements[key] = self.elements.get(key, 0) + size", "self.elements[key] = max(self.elements.get(key, 0), size)"),
    "exports": (r"elements handed to Python functions|printed elements|on the host is torch's work", "candidate.py",
                "        self.host.watch_exports()\n", ""),
    "bytes": (r"number that is read counts by its bytes", "host_operators.py",
              "size *= max(1, _element_size(args[0]) // self.item_bytes)", "pass"),
    "rest": (r"and the rest as one", "host_operators.py",
             '{**dict(ordered[:_MOST_NAMES]), **({"other operators": rest} if rest else {})}', "dict(ordered[:_MOST_NAMES])"),
    "screen": (r"screen(?!ed)", "screen.py", 'return _answer("ok", "", "", list(findings.forbidden), ', 'return _answer("ok", "", "", [], '),
    "guard": (r"is compared before a launch and after|is found before a launch", "guard.py",
              '        for thing, now, before, inherited in self._kept:', '        for thing, now, before, inherited in ():'),
    "identity": (r"known by identity", "kernel_body.py",
                 "    known = _TRITONS.get(id(function))\n",
                 '    if getattr(function, "__module__", "").startswith("triton."):\n        return True\n    known = _TRITONS.get(id(function))\n'),
    "helpers": (r"helpers' defaults are constants", "kernel_body.py",
                "    def _check_defaults(self):\n", "    def _check_defaults(self):\n        return\n"),
    "races": (r"another program of the launch stored is a race", "memory.py",
              "if not (self.acquired and self.released[part]):", "if False:"),
    "lanes": (r"the largest number in turn", "memory.py",
              "        if other is None and not mask.data.all():\n            other = _undefined(pointers)\n", ""),
    "order": (r"in a random order \(interpret\.py\)", "candidate.py",
              "interpret.Order.FORWARD if self.calls <= 2 else interpret.Order.RANDOM", "interpret.Order.FORWARD"),
    "collector": (r"collector is off", "candidate.py", "        gc.disable()\n", ""),
    "cuda_words": (r"condition must ask for cuda|where torch or Triton says them", "candidate.py",
                   "        frames = raised.frames_of(error)\n        if not frames:\n            return False\n        frame",
                   '        return "cuda" in text.lower() or "NVIDIA" in text\n        frame'),
    "integer_dots": (r"when int8 dots are left out", "candidate.py",
                     "        interpret.integer_dots.left_out = left_out == INTEGER_DOTS\n",
                     '        if left_out == INTEGER_DOTS:\n            return _outcome("runtime_error", "", ""), []\n'),
    "counted_dots": (r"multiply as many pairs", "candidate.py",
                     '            dots["integer_products"] = interpret.integer_dots.products\n', "            pass\n"),
    "other_dots": (r"no tl\.dot of other operands|hold a tl\.dot of other", "candidate.py",
                   "            if floating:\n", "            if False:\n"),
}


def named_by(file):
    """The defences that a kernel's `# Defence:` line names."""
    line = next((one for one in file.read_text(encoding="utf-8").splitlines()[:8] if one.startswith("# Defence:")), "")
    return tuple(name for name, (words, *_) in DEFENCES.items() if re.search(words, line.split("Twin:")[0]))


def without(names, folder):
    """The folder of a copy of the evaluator's Python without these defences."""
    copy = folder / "python"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(ROOT / "evaluator/python", copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name in names:
        _, file, text, instead = DEFENCES[name]
        source = copy / "anneal_eval" / file
        whole = source.read_text(encoding="utf-8")
        if whole.count(text) != 1:
            sys.exit(f"defences: {name}: {file} holds {whole.count(text)} times: {text.strip()}")
        source.write_text(whole.replace(text, instead), encoding="utf-8")
    return copy


def judged_without(names, files, anneal, folder):
    """[(kernel, class declared, class without the defences)]"""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "ANNEAL_EVALUATOR_PYTHON": str(without(names, folder))}
    if status := declared.judge(anneal, "cpu", folder, files, environment):
        sys.exit(status)
    return [(one["name"], re.search(r"expect: (\w+)", one["code"])[1], declared.decisive_class(verdict))
            for one, verdict in declared.read(folder / "submissions.jsonl", folder / "results.jsonl")]


def main(anneal, folder, chosen):
    groups = {}
    for file in sorted((ROOT / "tests/exploits").glob("*.py")):
        names = named_by(file) if declared.is_for("cpu", file.read_text(encoding="utf-8")) else ()
        if names and (not chosen or set(names) & set(chosen)):
            groups.setdefault(names, []).append(file)
    judged = kept = accepted = 0
    for names, files in groups.items():
        for kernel, with_them, without_them in judged_without(names, files, anneal, pathlib.Path(folder) / "+".join(names)):
            judged += 1
            kept += with_them == without_them
            accepted += without_them == "ok"
            print(f"{'kept ' if with_them == without_them else 'ok   '} {'+'.join(names):<16} {kernel:<44} {with_them:<16} {without_them}",
                  flush=True)
    print(f"{judged} judged without what they name: {accepted} accepted, {kept} judged as before")
    return 1 if kept else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
