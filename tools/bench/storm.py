"""A storm of hostile kernels with honest ones between them, through the real `anneal eval`.

    storm.py ANNEAL EVALD OUT [--device cpu|cuda:N] [--evaluations 300] [--call-seconds 20] [--run-seconds 10]
             [--memory-mib 1536] [--jobs N]

The honest kernels are judged alone first, then in the storm. Exit 1 unless
  * every verdict is the declared one (first lines as in declared.py, and `on cuda: CLASS` where a GPU answers otherwise);
  * the honest ones have the verdicts that they have alone; on a GPU their speedups agree too: intervals that meet, or 5 %;
  * the resident memory of the judge and of its zygote grows by less than 5 % from evaluations 30..60 to the last 30;
  * no process is left, no file of the run or of a candidate's user, and on a GPU no more memory in use than before.
"""

import argparse
import json
import os
import pathlib
import re
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HONEST = ["tests/kernels/mul/correct.py", "tests/kernels/softmax/correct.py", "tests/kernels/sum/correct.py"]
OTHER_HOSTILE = ["tests/kernels/hostile/infinite_loop.py", "tests/kernels/hostile/segfault.py",
                 "tests/kernels/hostile/exit_zero.py", "tests/exploits/E7_kills_its_parent.py",
                 "tests/exploits/E3_forges_answers.py"]
SETTLED, WINDOW = 30, 30  # evaluations before memory counts; over how many it is taken
MOST_GROWTH = 0.05
MOST_NOISE = 0.05  # of a speedup, where the intervals do not meet
FIRST_CANDIDATE_USER = 20_000  # sandbox.cpp gives candidates ids from here on


def declared(code, on_cuda):
    first = code.split("\n", 1)[0]
    other = re.search(r"on cuda: (\w+)", first)
    return other[1] if other and on_cuda else re.search(r"expect: (\w+)", first)[1]


def hostile_members(on_cuda):
    files = [ROOT / one for one in OTHER_HOSTILE] + sorted((ROOT / "tests/storm").glob("*.py"))
    members = []
    for file in files:
        code = file.read_text(encoding="utf-8")
        devices = re.search(r"devices: (\w+)", code.split("\n", 1)[0])
        if devices is None or devices[1] == ("cuda" if on_cuda else "cpu"):
            members.append({"task": "mul", "code": code, "name": file.stem, "expected": declared(code, on_cuda)})
    return members


def honest_members():
    return [{"task": file.split("/")[-2], "code": (ROOT / file).read_text(encoding="utf-8"), "expected": "ok",
             "name": "honest " + file.split("/")[-2]} for file in HONEST]


def mixed(count, on_cuda):
    """Every third one honest, the hostile ones in turn."""
    honest, hostile = honest_members(), hostile_members(on_cuda)
    order = []
    while len(order) < count:
        third, place = divmod(len(order), 3)
        order.append(honest[third % len(honest)] if place == 2 else hostile[(2 * third + place) % len(hostile)])
    return order


def resident_kib(pid):
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = re.search(r"VmRSS:\s+(\d+)", status)
    return int(found[1]) if found else None


def children_of(pid):
    try:
        return [int(one) for one in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class Watch(threading.Thread):
    """Notes the resident memory of the judge and of the zygote, and how many evaluations have begun."""

    def __init__(self, anneal, temporary):
        super().__init__(daemon=True)
        self.anneal, self.temporary = anneal, temporary
        self.samples, self.scratch, self.stopped = [], set(), False

    def run(self):
        while not self.stopped:
            for judge in children_of(self.anneal):
                kept = resident_kib(judge)
                zygotes = [size for size in map(resident_kib, children_of(judge)) if size]
                for file in self.temporary.glob("anneal-evald-*/*"):
                    self.scratch.add(file.name)
                if kept and zygotes:
                    self.samples.append((len(self.scratch), kept, zygotes[0]))
            time.sleep(0.05)

    def growth(self, which):
        """Relative growth of sample column `which` (1: judge, 2: zygote), or None when there were too few evaluations."""
        last = self.samples[-1][0] if self.samples else 0
        if last < SETTLED + 2 * WINDOW:
            return None
        early = [one[which] for one in self.samples if SETTLED <= one[0] < SETTLED + WINDOW]
        late = [one[which] for one in self.samples if one[0] > last - WINDOW]
        return statistics.median(late) / statistics.median(early) - 1


def left_processes(marker):
    """Processes with the run's marker in their first environment, or of a candidate's user."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if marker.encode() in (entry / "environ").read_bytes():
                found.append(entry.name)
        except OSError:
            pass
    return found


def left_files(temporary, before):
    found = [str(one) for one in temporary.rglob("*") if not one.name.startswith("anneal-gpu-")]
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        for one in pathlib.Path(folder).iterdir() if os.path.isdir(folder) else []:
            try:
                # anneal-*: of other runs; this one's lie in `temporary`
                if (one.lstat().st_uid >= FIRST_CANDIDATE_USER and str(one) not in before
                        and not one.name.startswith("anneal-")):
                    found.append(str(one))
            except OSError:
                pass
    return found


def files_now():
    return {str(one) for folder in ("/tmp", "/var/tmp", "/dev/shm") if os.path.isdir(folder)
            for one in pathlib.Path(folder).iterdir()}


def gpu_mib(device):
    """MiB in use on the GPU, or None on the cpu."""
    if device == "cpu":
        return None
    answer = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i",
                             device.split(":")[1]], capture_output=True, text=True, check=True)
    return int(answer.stdout.strip())


class Storm:
    def __init__(self, options):
        self.options, self.marker = options, "storm-" + secrets.token_hex(8)
        self.out = pathlib.Path(options.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.temporary = pathlib.Path(tempfile.mkdtemp(prefix="storm-"))
        self.temporary.chmod(0o711)  # as /tmp: candidates pass through
        self.wrapper = self.out.resolve() / "evald"
        self.wrapper.write_text(f"#!/bin/sh\nexec {pathlib.Path(options.evald).resolve()} \"$@\" --call-seconds "
                                f"{options.call_seconds} --run-seconds {options.run_seconds} --perf-seconds 1 "
                                f"--memory-mib {options.memory_mib}\n")
        self.wrapper.chmod(0o755)

    def judge(self, name, members):
        """The verdicts of `members`, in order, and the Watch over them."""
        submissions, folder = self.out / f"{name}.jsonl", self.out / name
        with open(submissions, "w", encoding="utf-8") as lines:
            for one in members:
                lines.write(json.dumps({"task": one["task"], "code": one["code"], "name": one["name"]}) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        environment = {**os.environ, "ANNEAL_EVALD": str(self.wrapper), "TMPDIR": str(self.temporary),
                       "ANNEAL_STORM": self.marker}
        command = [self.options.anneal, "eval", str(submissions), "--suite", "anneal", "--device", self.options.device,
                   "--out", str(folder)] + (["--jobs", str(self.options.jobs)] if self.options.jobs else [])
        with open(self.out / f"{name}.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
            watch = Watch(process.pid, self.temporary)
            watch.start()
            code = process.wait()
        watch.stopped = True
        watch.join()
        verdicts = [json.loads(line) for line in open(folder / "results.jsonl", encoding="utf-8")]
        if code != 0 or len(verdicts) != len(members):
            print(f"{name}: anneal eval left with {code}, {len(verdicts)} of {len(members)} judged; see {self.out}/{name}.log")
            print("".join(open(self.out / f"{name}.log", encoding="utf-8").readlines()[-5:]))
            sys.exit(1)
        return verdicts, watch


def decisive_class(one):
    for stage in (one["call"], one["exe"], one["policy"]):
        if stage["class"] != "ok":
            return stage["class"]
    return "ok"


def same_speed(alone, within):
    """Whether two perf verdicts agree."""
    if alone["status"] != "measured" or within["status"] != "measured":
        return alone["status"] == within["status"]
    if alone["ci"] and within["ci"] and alone["ci"]["lo"] <= within["ci"]["hi"] and within["ci"]["lo"] <= alone["ci"]["hi"]:
        return True
    return abs(within["speedup"] / alone["speedup"] - 1) <= MOST_NOISE


def judgement(one):
    return (decisive_class(one), one["accepted"], one["exe"]["deterministic"],
            [(case["name"], case["inputs"], case["ok"], case["strict_ok"]) for case in one["exe"]["cases"]])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("anneal")
    parser.add_argument("evald")
    parser.add_argument("out")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--evaluations", type=int, default=300)
    parser.add_argument("--call-seconds", type=float, default=20)
    parser.add_argument("--run-seconds", type=float, default=10)
    parser.add_argument("--memory-mib", type=int, default=1536, help="of the host's, a kernel")
    parser.add_argument("--jobs", type=int, default=0)
    options = parser.parse_args()
    on_cuda = options.device != "cpu"
    storm = Storm(options)
    failures = []
    files_before, memory_before = files_now(), gpu_mib(options.device)
    begin = time.monotonic()
    alone, _ = storm.judge("alone", honest_members())
    members = mixed(options.evaluations, on_cuda)
    verdicts, watch = storm.judge("storm", members)
    seconds = time.monotonic() - begin

    by_name = {}
    for member, one in zip(members, verdicts, strict=True):
        got = decisive_class(one)
        by_name.setdefault(member["name"], []).append(got)
        if got != member["expected"]:
            reason = one["call"]["message"] or one["exe"]["message"] or one["policy"]["message"]
            failures.append(f"{member['name']}: expected {member['expected']}, got {got}: {reason}")
    for name, classes in sorted(by_name.items()):
        print(f"{name:<32} {len(classes):>3}  " + ", ".join(f"{one} {classes.count(one)}" for one in sorted(set(classes))))
    for honest, calm in zip(honest_members(), alone, strict=True):
        for member, one in zip(members, verdicts, strict=True):
            if member["name"] != honest["name"]:
                continue
            if judgement(one) != judgement(calm):
                failures.append(f"{honest['name']}: another verdict than alone")
            if not same_speed(calm["perf"], one["perf"]):
                failures.append(f"{honest['name']}: speedup {one['perf']['speedup']} ({one['perf']['status']}: "
                                f"{one['perf']['reason']}), alone {calm['perf']['speedup']}")
    for column, what in ((1, "judge"), (2, "zygote")):
        growth = watch.growth(column)
        if growth is None:
            print(f"resident memory of the {what}: not measured, fewer than {SETTLED + 2 * WINDOW} evaluations were seen")
            continue
        print(f"resident memory of the {what}: {growth:+.1%}, {watch.samples[-1][column] / 1024:.0f} MiB at the end")
        if growth >= MOST_GROWTH:
            failures.append(f"the {what}'s resident memory grew by {growth:.1%}")

    deadline = time.monotonic() + 5
    while (processes := left_processes(storm.marker)) and time.monotonic() < deadline:
        time.sleep(0.1)
    if processes:
        failures.append(f"processes are left: {' '.join(processes)}")
    if files := left_files(storm.temporary, files_before):
        failures.append(f"{len(files)} files are left: {' '.join(files[:5])}")
    if memory_before is not None:
        memory_after = gpu_mib(options.device)
        print(f"GPU memory in use: {memory_before} MiB before, {memory_after} MiB after")
        if memory_after > memory_before + 64:
            failures.append(f"{memory_after - memory_before} MiB of GPU memory are left in use")
    if not failures:
        shutil.rmtree(storm.temporary)
    for one in failures:
        print("WRONG " + one)
    print(f"{len(verdicts)} evaluations in {seconds:.0f} s, {len(failures)} wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
