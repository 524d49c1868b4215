"""Loads a task file for the judge. A candidate's process never imports this."""

import ast
import importlib.util
import inspect
import json
import os

import numpy
import torch
import yaml

from anneal_eval.make import Make, Spec, input_seed


class Task:
    """One form of a task file: `file` is tasks/<Category>/<stem>.py, `precision` the form, `facts` its front matter."""

    def __init__(self, suite, task_id, file, precision, facts):
        stem = os.path.splitext(os.path.basename(file))[0]
        spec = importlib.util.spec_from_file_location(f"anneal_task_{stem}", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.suite, self.id, self.facts, self.module = suite, task_id, facts, module
        self.reference_function = getattr(module, stem)
        make = Make(precision)
        self.cases = {case.name: case for case in module.cases(make)}
        self.perf_cases = {case.name: case for case in module.perf_cases(make)}

    def inputs(self, case_name, kind, draw, device):
        """The arguments of one call, tensors on `device`. kind: standard | outlier | perf."""
        case = self.perf_cases[case_name] if kind == "perf" else self.cases[case_name]
        values = []
        for name, value in case.inputs.items():
            if isinstance(value, Spec):
                seed = input_seed(self.suite, self.id, case_name, name, draw, kind)
                value = value.materialise(seed, kind, device)
            values.append(value)
        return values

    def case_names(self):
        """Held-out cases last, so that the first one may be told."""
        return sorted(self.cases, key=lambda name: self.cases[name].held_out)

    def held_out(self, case_name):
        return self.cases[case_name].held_out

    def perf_case_names(self):
        return list(self.perf_cases)

    def has_outliers(self, case_name):
        return bool(self.outlier_arguments(case_name))

    def argument_names(self, case_name, kind):
        return list((self.perf_cases if kind == "perf" else self.cases)[case_name].inputs)

    def reference(self, inputs):
        """Outputs of the reference as a list, then the arguments that it changes in place."""
        with torch.no_grad():
            outputs = as_list(self.reference_function(*inputs))
        names = list(inspect.signature(self.reference_function).parameters)
        return outputs + [inputs[names.index(name)] for name in self.facts.get("in_place") or []]

    def reference_fp64(self, inputs):
        """The reference on inputs widened to fp64: the yardstick of the strict rule."""
        return self.reference([v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in inputs])

    def baseline(self, inputs):
        """A call of the reference for the clock."""
        def call():
            with torch.no_grad():
                return self.reference_function(*inputs)

        return call

    def scheme_fp64(self, inputs):
        """For quantization: the task's own scheme computed exactly, or None."""
        function = getattr(self.module, "scheme_fp64", None)
        if function is None:
            return None
        with torch.no_grad():
            return as_list(function(*inputs))

    def oracle(self, inputs):
        """What the reference should give, by another formulation and without torch, or None where the file has none."""
        return self._by_numpy("oracle", inputs)

    def scheme_oracle(self, inputs):
        """The same for `scheme_fp64`."""
        return self._by_numpy("scheme_oracle", inputs)

    def _by_numpy(self, name, inputs):
        function = getattr(self.module, name, None)
        if function is None:
            return None
        arrays = [v.detach().to("cpu", torch.float64 if v.is_floating_point() else v.dtype).numpy()
                  if isinstance(v, torch.Tensor) else v for v in inputs]
        with numpy.errstate(all="ignore"):
            outputs = [numpy.array(one, order="C") for one in as_list(function(*arrays))]
        for one in outputs:
            if one.dtype.kind == "f" and one.dtype != numpy.float64:
                raise TypeError(f"{name} returned {one.dtype}, not float64")
        return [torch.from_numpy(one) for one in outputs]

    def low_precision(self, inputs):
        """The operator with every step in the inputs' own precision, as `reference` gives it; None where undefined."""
        function = getattr(self.module, "low_precision", None)
        if function is None:
            return None
        with torch.no_grad():
            return as_list(function(*inputs))

    def outlier_arguments(self, case_name):
        """The arguments whose outlier input is to hold outliers."""
        return [name for name, v in self.cases[case_name].inputs.items()
                if isinstance(v, Spec) and v.has_outliers]

    def input_elements(self, case_name, kind):
        """Of all tensors of one call, without drawing what needs no map."""
        case = self.perf_cases[case_name] if kind == "perf" else self.cases[case_name]
        return sum(v.numel for v in case.inputs.values() if isinstance(v, Spec))

    def cost(self, case_name, perf):
        """(bytes, flops, reduction length) of one call; None where there is no honest count."""
        case = self.perf_cases[case_name] if perf else self.cases[case_name]
        cost = self.module.cost(case)
        return cost.get("bytes"), cost.get("flops"), cost.get("reduction", 1)


def as_list(outputs):
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def read_suite(folder):
    """{task id: (file, precision, category, front matter)} of every tasks/<Category>/<stem>.py under `folder`.

    Folders and files that begin with _ or . are none. Forms: the first of `precisions` is <stem> itself, every other one <stem>_<precision>.
    """
    tasks = {}
    for category in sorted(os.listdir(folder)):
        if category[0] in "._" or not os.path.isdir(os.path.join(folder, category)):
            continue
        for name in sorted(os.listdir(os.path.join(folder, category))):
            if name[0] in "._" or not name.endswith(".py"):
                continue
            file, stem = os.path.join(folder, category, name), name[:-3]
            facts = front_matter(file)
            forms = list(facts["precisions"]) + list(facts.get("extra_precisions") or [])
            for precision in forms:
                task_id = stem if precision == forms[0] else f"{stem}_{precision}"
                tasks[task_id] = (file, precision, category, facts)
    return tasks


def front_matter(file):
    with open(file, encoding="utf-8") as source:
        docstring = ast.get_docstring(ast.parse(source.read(), file)) or ""
    parts = docstring.split("---\n", 2)
    if len(parts) != 3 or parts[0].strip():
        raise ValueError(f"{file}: the docstring must begin with front matter between two lines of ---")
    facts = yaml.safe_load(parts[1])
    for key in ("signature", "precisions", "comparison"):
        if key not in facts:
            raise ValueError(f"{file}: front matter lacks `{key}`")
    return facts


def facts_json(facts):
    return json.dumps(facts)
