"""Kernels whose first line declares what must become of them.

    declared.py write DEVICE OUT.jsonl PATH...     submissions for `anneal eval`, those of DEVICE (cpu or cuda); PATH: a file or a folder
    declared.py check OUT.jsonl RESULTS.jsonl        a table; exit 1 unless every verdict is the declared one
    declared.py judge ANNEAL DEVICE FOLDER PATH...   both, with `anneal eval` between them, in FOLDER; DEVICE: cpu, cuda:0

First line: `# task: mul; expect: CLASS[; on cuda: CLASS[|CLASS]][; devices: cpu|cuda[, simulated]][; speedup: below X][; open: yes]`.
CLASS is of the first stage that failed, or ok; on cuda: where another is right on a GPU. simulated: it also shows on the tests'
simulated GPU (tests/evaluator/simulated_timing_test.cpp). open: no defence is known yet; it counts apart, and as wrong once it
gets its class after all.
"""

import json
import os
import pathlib
import re
import subprocess
import sys


def is_for(device, code):
    devices = re.search(r"devices: (\w+)", code.split("\n", 1)[0])
    return devices is None or devices[1] == device


def write(device, out, paths):
    with open(out, "w", encoding="utf-8") as lines:
        for file in sorted(file for path in map(pathlib.Path, paths) for file in ([path] if path.is_file() else path.rglob("*.py"))):
            code = file.read_text(encoding="utf-8")
            task = re.search(r"task: (\w+)", code.split("\n", 1)[0])
            if task and is_for(device, code):
                lines.write(json.dumps({"task": task[1], "code": code, "name": file.stem}) + "\n")


def decisive_class(one):
    for stage in (one["call"], one["exe"], one["policy"]):
        if stage["class"] != "ok":
            return stage["class"]
    return "ok"


def read(submitted, results):
    """[(submission, its verdict)]"""
    submissions, verdicts = ([json.loads(line) for line in open(file, encoding="utf-8")] for file in (submitted, results))
    return list(zip(submissions, verdicts, strict=True))


def check(submitted, results):
    judged, wrong, still_open = read(submitted, results), [], 0
    for submission, one in judged:
        first = submission["code"].split("\n", 1)[0]
        expected = re.search(r"expect: ([\w|]+)", first)[1]
        if one["device"] != "cpu" and (on_gpu := re.search(r"; on cuda: ([\w|]+)", first)):
            expected = on_gpu[1]
        limit = re.search(r"speedup: below ([\d.]+)", first)
        got, speedup = decisive_class(one), one["perf"].get("speedup")
        measured = one["perf"]["status"] == "measured"
        right = got in expected.split("|") and not (limit and measured and speedup >= float(limit[1]))
        is_open = "open: yes" in first
        still_open += is_open and not right
        shown = f"{speedup:.3f}" if measured else one["perf"]["status"]
        line = (f"{'WRONG' if right == is_open else 'open ' if is_open else 'ok   '} {submission['name']:<34} expected {expected:<16} got {got:<16} "
                f"{shown:<14} {','.join(one['flags'])}")
        if not right:
            line += "\n      " + (one["exe"].get("message") or one["call"].get("message") or one["perf"].get("reason") or "")
        print(line)
        if right == is_open:
            wrong.append(line)
    print(f"{len(judged)} judged, {len(wrong)} other than declared, {still_open} known to be open", *wrong, sep="\n")  # again: a log may lose its middle
    return 1 if wrong else 0


def judge(anneal, device, folder, paths, environment=None):
    """Has the kernels of `paths` judged: submissions.jsonl and results.jsonl in `folder`. Returns the exit code of `anneal eval`."""
    folder.mkdir(parents=True, exist_ok=True)
    write(device.split(":")[0], folder / "submissions.jsonl", paths)
    command = [anneal, "eval", folder / "submissions.jsonl", "--suite", "anneal", "--device", device, "--out", folder]
    if device != "cpu":  # most of them never come to be timed, and starting CUDA takes longer than the rest
        command += ["--jobs", str(os.cpu_count())]
    return subprocess.run(command, stdout=subprocess.DEVNULL, env=environment).returncode


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], sys.argv[3], sys.argv[4:])
    elif sys.argv[1] == "judge":
        into = pathlib.Path(sys.argv[4])
        sys.exit(judge(sys.argv[2], sys.argv[3], into, sys.argv[5:]) or check(into / "submissions.jsonl", into / "results.jsonl"))
    else:
        sys.exit(check(sys.argv[2], sys.argv[3]))
