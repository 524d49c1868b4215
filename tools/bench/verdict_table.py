"""Prints results.jsonl as a short table: task, verdict, speedup with its interval, and the cases' times.

    verdict_table.py RESULTS.jsonl [--same TOLERANCE]
--same 0.02: exit 1 unless every measured speedup lies within 2 % of 1.00.
"""

import json
import sys


def main():
    results = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
    tolerance = float(sys.argv[3]) if len(sys.argv) > 3 and sys.argv[2] == "--same" else None
    off = []
    print(f"{'task':<16} {'class':<16} {'speedup':>8}  {'99 % interval':<18} {'verdict':<10} cases (baseline/candidate us)")
    for one in sorted(results, key=lambda r: r["task"]):
        perf, call, exe = one["perf"], one["call"], one["exe"]
        failure = next((s["class"] for s in (call, exe, one["policy"]) if s["class"] != "ok"), "accepted")
        if perf["status"] != "measured":
            print(f"{one['task']:<16} {failure:<16} {'-':>8}  not measured: {perf['reason']}")
            continue
        cases = "; ".join(f"{c['name']} {c['baseline_ns'] / 1e3:.1f}/{c['candidate_ns'] / 1e3:.1f}" for c in perf["cases"])
        lo, hi = perf["ci"]
        print(f"{one['task']:<16} {failure:<16} {perf['speedup']:>8.4f}  [{lo:.4f}, {hi:.4f}]   {perf['verdict']:<10} {cases}")
        if tolerance is not None and abs(perf["speedup"] - 1) > tolerance:
            off.append(one["task"])
    if tolerance is not None:
        measured = sum(r["perf"]["status"] == "measured" for r in results)
        print(f"{measured} measured, {len(off)} further than {tolerance:.0%} from 1.00" + (": " + ", ".join(off) if off else ""))
        sys.exit(1 if off or measured == 0 else 0)


if __name__ == "__main__":
    main()
