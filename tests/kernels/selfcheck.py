"""Runs every kernel of tests/kernels/<task>/ on the CPU against its task's reference and prints what happened.

A quick look while writing kernels; the judge decides. Usage: python tests/kernels/selfcheck.py [task[/name]...]
"""
import importlib.util
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "evaluator", "python"))

import torch  # noqa: E402

from anneal_eval import interpret  # noqa: E402
from anneal_eval.task import Task, as_list  # noqa: E402

FORMS = {"fp16": "fp16", "bf16": "bf16", "w8a8": "w8a8"}


def find_task(task_id):
    suffix = task_id.rsplit("_", 1)[-1]
    for stem, precision in ((task_id, FORMS.get(suffix, "fp32")), (task_id.rsplit("_", 1)[0], FORMS.get(suffix))):
        for folder, _, files in os.walk(os.path.join(ROOT, "tasks")):
            if stem + ".py" in files:
                return Task("anneal", task_id, os.path.join(folder, stem + ".py"), precision, {})
    raise SystemExit(f"no task file for {task_id}")


def tolerance(dtype):
    return 5e-3 if dtype in (torch.float16, torch.bfloat16) else 1e-5


def check(task, path):
    try:
        spec = importlib.util.spec_from_file_location("candidate", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        entry = getattr(module, task.id)
    except Exception as error:
        return f"import: {type(error).__name__}: {error}"
    wrong = []
    for name in task.cases:
        for kind in ("standard", "outlier"):
            mine, theirs = (task.inputs(name, kind, "00", "cpu") for _ in range(2))
            try:
                got = as_list(entry(*mine))
            except Exception as error:
                return f"call ({name}, {kind}): {type(error).__name__}: {str(error).splitlines()[-1][:200]}"
            expected = task.reference(theirs)
            pairs = list(zip(got, expected)) + [(a, b) for a, b in zip(mine, theirs) if isinstance(a, torch.Tensor)]
            for a, b in pairs:
                if a.shape != b.shape or a.dtype != b.dtype:
                    wrong.append(f"{name}({kind}): {tuple(a.shape)} {a.dtype} for {tuple(b.shape)} {b.dtype}")
                elif a is got[0] and hasattr(task.module, "scheme_fp64"):
                    exact = task.scheme_fp64(theirs)[0]
                    rmse, own = ((v.double() - b).square().mean().sqrt().item() for v in (a, exact))
                    if not rmse <= max(0.1, 1.25 * own):
                        wrong.append(f"{name}({kind}): rmse {rmse:.3g}, scheme {own:.3g}")
                elif not torch.allclose(a, b, tolerance(b.dtype), tolerance(b.dtype), equal_nan=True):
                    share = (~torch.isclose(a, b, tolerance(b.dtype), tolerance(b.dtype))).double().mean().item()
                    wrong.append(f"{name}({kind}): {share:.1%} wrong")
    return "ok" if not wrong else "values: " + "; ".join(wrong[:4])


def main(wanted):
    interpret.install(90)
    here = os.path.dirname(os.path.abspath(__file__))
    for task_id in sorted(os.listdir(here)):
        folder = os.path.join(here, task_id)
        if not os.path.isdir(folder) or task_id in ("matrix", "hostile", "__pycache__"):
            continue
        task = find_task(task_id)
        for name in sorted(os.listdir(folder)):
            label = f"{task_id}/{name.removesuffix('.py')}"
            if name.endswith(".py") and (not wanted or task_id in wanted or label in wanted):
                print(f"{label}: {check(task, os.path.join(folder, name))}", flush=True)


main(sys.argv[1:])
