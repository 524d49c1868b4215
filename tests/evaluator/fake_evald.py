#!/usr/bin/env python3
"""A stand-in for anneal-evald that speaks its protocol on descriptor 3 and does as the kernel's text says.

The device chooses how it begins (cpu: a hello; fatal, old, silent, dead, garbage); words in the code choose the answer.
"""
import hashlib
import json
import os
import socket
import struct
import sys
import threading
import time

channel = socket.socket(fileno=3)
lock = threading.Lock()


def send(message):
    body = json.dumps(message).encode()
    with lock:
        channel.sendall(struct.pack("<I", len(body)) + body)


def receive_exactly(count):
    data = b""
    while len(data) < count:
        part = channel.recv(count - len(data))
        if not part:
            os._exit(0)
        data += part
    return data


def verdict(request, ok):
    failure = "ok" if ok else "compile_error"
    none = {"ok": ok, "class": failure, "message": "", "seconds": 0.5}
    return {
        "task": request["task"], "category": "Activation", "suite": option("--suite"),
        "code_sha256": hashlib.sha256(request["code"].encode()).hexdigest(),
        "device": option("--device"), "device_name": "fake", "settings_sha256": "5e77", "draw": "00",
        "call": none,
        "exe": {"ok": ok, "strict_ok": ok, "class": failure if ok else "not_run", "message": "", "cases": [],
                "deterministic": None, "seconds": 0},
        "perf": {"status": "not_measured", "reason": "cpu", "speedup": None, "speedup_geomean": None, "ci": None,
                 "verdict": "", "cases": [], "gbps": None, "tflops": None, "iou": None, "mfu": None,
                 "iou_measured_peak": None, "mfu_measured_peak": None, "seconds": 0},
        "policy": {"ok": True, "class": "ok", "message": ""}, "accepted": ok,
        "kernel": {"launches": 1, "kernels": [], "own_time_share": None}, "flags": [],
        "feedback": "" if ok else "call failed: compile_error: fake"}


def option(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else ""


def first_time(path):
    """True once for each path, over all daemons."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


def note(text):
    if "ANNEAL_EVALD_FAKE_LOG" in os.environ:
        with open(os.environ["ANNEAL_EVALD_FAKE_LOG"], "a") as log:
            log.write(text + "\n")


def answer(request):
    code = request["code"]
    if "slow" in code:
        time.sleep(0.05)
    if "die always" in code or ("die once " in code and first_time(code.split("die once ")[1].split()[0])):
        os._exit(7)
    if "hang once " in code and first_time(code.split("hang once ")[1].split()[0]):
        return
    if "never" in code:
        return
    if "babble" in code:
        with lock:
            channel.sendall(b"\xff\xff\xff\xff")
    elif "unusable" in code:
        send({"type": "fatal", "kind": "unusable", "message": "a kernel could not be killed"})
    elif "fault" in code:
        send({"type": "fault", "id": request["id"], "message": "the device is gone"})
    elif "malformed" in code:
        send({"type": "verdict", "id": request["id"], "verdict": {"task": 3}})
    else:
        send({"type": "verdict", "id": request["id"], "verdict": verdict(request, "wrong" not in code)})


def main():
    device = option("--device")
    note("start " + " ".join(sys.argv[1:]))
    note("environment " + " ".join(sorted(os.environ)))
    if device == "fatal":
        send({"type": "fatal", "kind": "missing", "message": "No CUDA device is visible."})
        return
    if device == "killed":
        os.kill(os.getpid(), 9)
    if device == "dead":
        sys.exit(9)
    if device == "silent":
        time.sleep(60)
    if device == "garbage":
        channel.sendall(b"GET / HTTP/1.1\r\n\r\n")
        time.sleep(60)
    print("noise on stdout", flush=True)
    send({"type": "hello", "protocol": 99 if device == "old" else 2,
          "facts": {"device": device, "device_name": "fake", "torch": "2.11.0", "triton": "3.6.0", "python": "3.11",
                    "driver": "", "sandbox": "full", "settings_sha256": "5e77", "jobs": int(option("--jobs") or 2)}})
    while True:
        size = struct.unpack("<I", receive_exactly(4))[0]
        message = json.loads(receive_exactly(size))
        note(message["type"] + " " + str(message.get("id", "")))
        if message["type"] == "shutdown":
            return
        if message["type"] == "evaluate":
            threading.Thread(target=answer, args=(message,), daemon=True).start()
        if message["type"] == "lint":
            report = {"task": message["task"], "device": device, "ok": False, "input_sets": 3, "refused": 7,
                      "findings": [{"check": "oracle", "where": "", "message": "no oracle"}],
                      "not_applicable": [{"answer": "zeros", "reason": "none"}]}
            kind = "verdict" if message["task"] == "as_a_verdict" else "lint_report"
            send({"type": kind, "id": message["id"], "report": [] if message["task"] == "malformed" else report})


main()
