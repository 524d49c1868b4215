#!/usr/bin/env python3
"""A judge for tests: speaks the daemon's protocol and reads its verdict from the kernel's first comment.

"# ok": accepted. "# call CLASS" / "# exe CLASS": fails there. "# die": the daemon ends at once; "# unusable": it gives up
its device. With ANNEAL_EVALD_FAKE_DELAY
(seconds) every verdict takes that long; with ANNEAL_EVALD_FAKE_ARGUMENTS (a file) it writes its command line there;
ANNEAL_EVALD_FAKE_FEEDBACK is what it says of a wrong kernel;
ANNEAL_EVALD_FAKE_KILLED ("FILE:N") kills its first N starts;
ANNEAL_EVALD_FAKE_SANDBOX and ANNEAL_EVALD_FAKE_DEVICE_NAME are what it says of itself. Run by the interpreter that Python tests use; needs nothing but the standard
library.
"""
import hashlib
import json
import os
import signal
import struct
import sys
import time

FD = 3


def read_exactly(count):
    data = b""
    while len(data) < count:
        piece = os.read(FD, count - len(data))
        if not piece:
            sys.exit(0)
        data += piece
    return data


def send(message):
    body = json.dumps(message).encode()
    data = struct.pack("<I", len(body)) + body
    while data:
        data = data[os.write(FD, data):]


def verdict(task, code):
    lines = [line for line in code.splitlines() if line.startswith("# ")]
    words = (lines[0] if lines else "# ok")[2:].split()
    stage, detail = words[0], " ".join(words[1:])
    if stage == "die":
        os._exit(1)
    if stage == "unusable":
        send({"type": "fatal", "kind": "unusable", "message": "a kernel could not be killed"})
        time.sleep(60)
    call_ok, ok = stage != "call", stage == "ok"
    interval = None
    return {
        "task": task, "category": "Test", "suite": "anneal", "code_sha256": hashlib.sha256(code.encode()).hexdigest(),
        "device": "cpu", "device_name": "fake", "settings_sha256": "5" * 64, "draw": "00",
        "call": {"ok": call_ok, "class": "ok" if call_ok else detail, "message": os.environ.get("ANNEAL_EVALD_FAKE_FEEDBACK", ""), "seconds": 0.0},
        "exe": {"ok": ok, "strict_ok": ok, "class": "ok" if ok else (detail if call_ok else "not_run"), "message": "",
                "cases": [], "deterministic": None, "seconds": 0.0},
        "perf": {"status": "not_measured", "reason": "fake", "speedup": None, "speedup_geomean": None, "ci": interval,
                 "verdict": "", "cases": [], "gbps": None, "tflops": None, "iou": None, "mfu": None,
                 "iou_measured_peak": None, "mfu_measured_peak": None, "seconds": 0.0},
        "policy": {"ok": True, "class": "ok", "message": ""},
        "accepted": ok,
        "kernel": {"launches": 1, "kernels": [], "own_time_share": None},
        "flags": [],
        "feedback": "" if ok else os.environ.get("ANNEAL_EVALD_FAKE_FEEDBACK", f"{stage} failed: {detail}: of {task}"),
    }


def die_at_the_start(file, times):
    """By a signal, before the hello; FILE counts the starts."""
    with open(file, "a") as out:
        out.write("start\n")
    with open(file) as starts:
        if len(starts.readlines()) <= times:
            os.kill(os.getpid(), signal.SIGKILL)


def main():
    if os.environ.get("ANNEAL_EVALD_FAKE_KILLED"):
        file, times = os.environ["ANNEAL_EVALD_FAKE_KILLED"].rsplit(":", 1)
        die_at_the_start(file, int(times))
    if os.environ.get("ANNEAL_EVALD_FAKE_FATAL"):
        send({"type": "fatal", "kind": "missing", "message": os.environ["ANNEAL_EVALD_FAKE_FATAL"]})
        sys.exit(1)
    if os.environ.get("ANNEAL_EVALD_FAKE_ARGUMENTS"):
        with open(os.environ["ANNEAL_EVALD_FAKE_ARGUMENTS"], "w") as out:
            out.write("\n".join(sys.argv[1:]) + "\n")
    jobs = int(sys.argv[sys.argv.index("--jobs") + 1]) if "--jobs" in sys.argv else 4
    delay = float(os.environ.get("ANNEAL_EVALD_FAKE_DELAY", "0"))
    send({"type": "hello", "protocol": 2,
          "facts": {"device": "cpu", "device_name": os.environ.get("ANNEAL_EVALD_FAKE_DEVICE_NAME", "fake"), "torch": "0", "triton": "0", "python": "3", "driver": "",
                    "sandbox": os.environ.get("ANNEAL_EVALD_FAKE_SANDBOX", "full"), "settings_sha256": "5" * 64, "jobs": jobs or 4}})
    while True:
        (size,) = struct.unpack("<I", read_exactly(4))
        message = json.loads(read_exactly(size))
        if message["type"] == "shutdown":
            sys.exit(0)
        if message["type"] == "evaluate":
            time.sleep(delay)
            send({"type": "verdict", "id": message["id"], "verdict": verdict(message["task"], message["code"])})
        if message["type"] == "lint":
            send({"type": "fault", "id": message["id"], "message": "the device is gone"})


main()
