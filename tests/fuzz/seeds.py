#!/usr/bin/env python3
"""Writes the fuzz targets' seeds and dictionaries out of files that the repository has anyway.

    tests/fuzz/seeds.py OUT    makes OUT/TARGET/* and OUT/TARGET.dict
"""
import json
import pathlib
import re
import socket
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def raw_strings(pattern):
    """The raw string literals of the test sources that match."""
    for path in sorted((ROOT / "tests").glob(pattern)):
        for _, text in re.findall(r'R"(\w*)\((.*?)\)\1"', path.read_text(), re.DOTALL):
            yield text


def daemon_bodies():
    """What the stand-in of the daemon's tests says: its hello and an answer of every kind."""
    ours, theirs = socket.socketpair()
    command = ["sh", "-c", 'exec "$0" "$@" 3<&0 0</dev/null', sys.executable, ROOT / "tests/evaluator/fake_evald.py",
               "--device", "cpu", "--suite", "anneal"]
    daemon = subprocess.Popen(command, stdin=theirs, stdout=subprocess.DEVNULL)
    theirs.close()
    stream = ours.makefile("rwb")

    def receive():
        return stream.read(struct.unpack("<I", stream.read(4))[0])

    yield receive()
    for number, (kind, text) in enumerate([("evaluate", "right"), ("evaluate", "wrong"), ("evaluate", "fault"),
                                           ("evaluate", "malformed"), ("evaluate", "unusable"), ("lint", "")]):
        body = json.dumps({"type": kind, "id": number, "task": "gelu", "code": text}).encode()
        stream.write(struct.pack("<I", len(body)) + body)
        stream.flush()
        yield receive()
    daemon.kill()
    daemon.wait()


def filled(body):
    """A verdict with one of each thing that it can list (docs/interface.md, "One result")."""
    message = json.loads(body)
    if message.get("type") != "verdict" or "exe" not in message["verdict"]:
        return body
    verdict = message["verdict"]
    verdict["exe"]["deterministic"] = True
    verdict["exe"]["cases"] = [{
        "name": "n1023", "inputs": "outlier", "held_out": True, "ok": False, "strict_ok": False, "class": "tail",
        "message": "", "max_abs": "nan", "max_rel": 0.5, "cosine": None, "l1_relative": 1e-3, "rmse": "-inf",
        "wrong_share": 0.25, "worst": [{"index": [1, 2], "expected": 1.5, "got": "inf"}]}]
    verdict["perf"]["cases"] = [{
        "name": "big", "baseline_ns": 100, "candidate_ns": 80.5, "speedup": 1.25, "ci": [1.2, "inf"], "quads": 16,
        "discarded": 0, "bytes": 1024, "flops": None}]
    verdict["perf"].update(ci=[1.2, 1.3], speedup=1.25, speedup_geomean=1.25)
    verdict["kernel"]["kernels"] = [{"name": "k", "registers": 32, "spills": None, "shared_bytes": 0}]
    verdict["flags"] = ["needs_sync"]
    return json.dumps(message).encode()


def candidate_messages():
    """Answers as docs/protocol.md lists them ("Judge and candidate"); the first byte: how many descriptors."""
    kernels = {"launches": 2, "kernels": [{"name": "k", "registers": 32, "spills": None, "shared_bytes": 0}],
                "dots": {"integer": True, "floating": "", "integer_products": 4096},
                "host_operators": {"mul": 4096, "add": 16}}
    output = {"kind": "tensor", "dtype": "float32", "shape": [4, 5], "strides": [5, 1], "offset": 256,
              "device": "cpu", "plain": True, "aliases_input": False}
    for message in [
            {"class": "ok", "message": "", "detail": "", "outputs": [output, {"kind": "other", "type": "int"}],
             "kernels": kernels},
            {"class": "ok", "message": "", "detail": "", "forbidden": ["eval"], "decoys": []}, {},
            {"event_ns": 1234.5, "needs_sync": False, "side_streams": True, **kernels}]:
        for first in (b"\1", b"\4", b"\x2c"):
            yield first + json.dumps(message).encode()
    for text in raw_strings("evald/channel_test.cpp"):
        yield b"\1" + text.encode()


def recorded_lines():
    return (ROOT / "recordings/quickstart.jsonl").read_text().splitlines()


def replies():
    for line in recorded_lines():
        entry = json.loads(line)
        for mark in ("", "!", "?"):
            yield f'{entry["task"]}{mark}\n{entry["reply"]["text"]}'.encode()


def chat_bodies():
    for pattern in ("llm/*_test.cpp", "llm/*.h"):
        yield from (text.encode() for text in raw_strings(pattern))


def recordings():
    lines = recorded_lines()
    yield from (line.encode() for line in lines)
    yield "\n".join(sorted(lines, key=len)[:4]).encode()
    yield from (text.encode() for text in raw_strings("llm/recording_test.cpp"))


def configurations():
    texts = [path.read_text() for path in sorted((ROOT / "configs").glob("*.yaml"))]
    texts += raw_strings("agents/config_test.cpp")
    for text in texts:
        yield text.encode()
        yield text.encode() + b"\0device=cuda:0"
        yield text.encode() + b"\0methods.geak.seeds=2"
    for path in sorted((ROOT / "tasks").glob("*/*.py")):
        yield path.read_text().partition("---")[2].partition("---")[0].encode()


MARKDOWN = ["```", "```python\\x0a", "\\x0a```\\x0a", "~~~", "\\\"\\\"\\\"", "'''", "\\\\'''", "<think>", "</think>", "def ",
            "async def ", "class ", " = ", "\\x0d\\x0a", "#" * 40, "\\xe2\\x80\\xae"]
YAML = ["&a ", "*a", "<<: *a", "!!str ", "|-\\x0a", ">-\\x0a", "? ", "- ", ": ", "{", "}", "[", "]", "\\x0a  ", "---\\x0a",
        "%YAML 1.2", "\\xff", "null", "true", "1e400", "\\x00"]
TARGETS = {
    "daemon_message": (lambda: [filled(body) for body in daemon_bodies()], None),
    "candidate_message": (candidate_messages, None),
    "reply": (replies, MARKDOWN),
    "chat": (chat_bodies, None),
    "recording": (recordings, None),
    "config": (configurations, YAML),
}
JSON = ["1e400", "-1", "18446744073709551616", "9223372036854775808", "1e300", "null", "[[", "{}", "\\\"\\\\ud800\\\"",
        "\\xff"]


def main():
    out = pathlib.Path(sys.argv[1])
    for target, (seeds, words) in TARGETS.items():
        texts = sorted(set(seeds()))
        if not texts:
            sys.exit(f"seeds.py: found no seeds for {target}")
        folder = out / target
        folder.mkdir(parents=True, exist_ok=True)
        for number, text in enumerate(texts):
            (folder / f"{number:04}").write_bytes(text)
        if words is None:
            keys = {key for text in texts for key in re.findall(rb'"([a-z_0-9]{2,24})"', text)}
            words = JSON + [f'\\"{key.decode()}\\"' for key in sorted(keys)]
        elif target == "config":
            keys = {key for text in texts for key in re.findall(rb"([a-z_]{3,20}):", text)}
            words = words + [f"{key.decode()}: " for key in sorted(keys)]
        (out / f"{target}.dict").write_text("".join(f'"{word}"\n' for word in words))


main()
