"""Writes submissions that only call the reference's own operator, one a task: timed, each must measure 1.00x.

    same_op.py TASKS_FOLDER OUT.jsonl TASK...
A task id of another form (gelu_bf16) uses its stem's file.
"""

import json
import pathlib
import sys


def main():
    folder, out, names = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    files = {file.stem: file for file in folder.glob("*/*.py")}
    with out.open("w", encoding="utf-8") as lines:
        for name in names:
            stem = name if name in files else name.rsplit("_", 1)[0]
            code = files[stem].read_text(encoding="utf-8") + ("" if stem == name else f"\n{name} = {stem}\n")
            lines.write(json.dumps({"task": name, "code": code}) + "\n")


if __name__ == "__main__":
    main()
