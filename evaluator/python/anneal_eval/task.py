"""Loads a task file for the judge. A candidate's process never imports this."""

import importlib.util
import os

import torch

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

    def has_outliers(self, case_name):
        return any(isinstance(v, Spec) and v._outliers and v.numel > 0 for v in self.cases[case_name].inputs.values())

    def reference(self, inputs):
        """Outputs of the reference, as a list."""
        with torch.no_grad():
            return as_list(self.reference_function(*inputs))

    def reference_fp64(self, inputs):
        """The reference on inputs widened to fp64: the yardstick of the strict rule."""
        wide = [v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in inputs]
        return self.reference(wide)

    def scheme_fp64(self, inputs):
        """For quantization: the task's own scheme computed exactly, or None."""
        function = getattr(self.module, "scheme_fp64", None)
        if function is None:
            return None
        with torch.no_grad():
            return as_list(function(*inputs))

    def cost(self, case_name, perf):
        """(bytes, flops, reduction length) of one call; None where there is no honest count."""
        case = self.perf_cases[case_name] if perf else self.cases[case_name]
        cost = self.module.cost(case)
        return cost.get("bytes"), cost.get("flops"), cost.get("reduction", 1)


def as_list(outputs):
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
