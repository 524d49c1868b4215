#!/usr/bin/env python3
"""Writes recordings/quickstart.jsonl: the replies that configs/quickstart.yaml replays, from tests/kernels and STORY.

Every reply is a demonstration written for this repository; no model produced it. Run it again after changing a kernel:
    python3 tools/make_recording.py [--check]     (--check: compare with the file, write nothing)
"""
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KERNELS = os.path.join(ROOT, "tests", "kernels")
TARGET = os.path.join(ROOT, "recordings", "quickstart.jsonl")
PROSE, TRUNCATED = "prose", "truncated:"  # a reply without code; a reply cut within the named kernel

# task: single-shot's kernel, then geak's pair (slot 0, slot 1) for iterations 0, 1, 2.
STORY = {
    "gelu_bf16": ("tail_missing", [("tail_missing", "correct"), ("correct", "tail_missing"), ("scalar", "correct")]),
    "softmax": ("correct", [("overflow", PROSE), ("correct", "online"), ("online", "correct")]),
    "mul": ("correct", [("truncated:correct", "correct"), ("scalar", "no_broadcast"), ("correct", "correct")]),
    "matmul_fp16": ("missing_import", [("missing_import", "k_remainder_lost"), ("correct", "k_remainder_lost"),
                                       ("correct", "correct")]),
    "sum": ("arange_not_power_of_two", [("arange_not_power_of_two", PROSE),
                                        ("first_block_only", "arange_not_power_of_two"), ("correct", "correct")]),
    "argmax": ("index_within_tile", [("host_method", "index_within_tile"), ("index_within_tile", "index_within_tile"),
                                     ("index_within_tile", "int32_result")]),
    "mse_loss": ("correct", [("wrong_divisor", "atomic"), ("correct", "atomic"), ("correct", "correct")]),
    "index_select": ("bad_import", [("bad_import", "wrong_stride"), ("wrong_stride", "correct"),
                                    ("correct", "correct")]),
    "avg_pool1d": ("divides_by_inside", [("wrong_length", "divides_by_inside"),
                                         ("divides_by_inside", "truncated:correct"), ("correct", "correct")]),
    "fused_add_gelu": ("correct", [("no_such_function", "alpha_ignored"), ("correct", "correct"),
                                   ("correct", "correct")]),
    "batch_norm": ("biased_running_var", [("static_range_runtime", "wrong_channel"), ("wrong_channel", "correct"),
                                          ("correct", "correct")]),
    "matmul_w8a8": ("float_product", [("column_scale_lost", "int8_wraps"), ("int8_wraps", "column_scale_lost"),
                                      ("correct", "column_scale_lost")]),
}

# kernel: (what the judge's feedback must hold, what a reflection says). Kernels not named here are right.
WRONG = {
    "tail_missing": ("exe failed: ", "The grid is n // BLOCK, so the elements after the last full block are never "
                     "written. Use triton.cdiv for the grid and keep the mask."),
    "overflow": ("exe failed: ", "Masked columns are loaded as 0 and add exp(0) to the sum, and nothing bounds the "
                 "exponent. Load -inf there and subtract the row's maximum."),
    "no_broadcast": ("exe failed: ", "Reading the second operand modulo its size handles a trailing row only, and the "
                     "result has the first operand's shape. Expand both operands first."),
    "missing_import": ("call failed: import_error", "The module uses tl but never imports triton.language as tl."),
    "k_remainder_lost": ("exe failed: ", "The loop stops at the last whole tile of K. Run it up to K; the masks "
                         "already take care of the rest."),
    "arange_not_power_of_two": ("call failed: compile_error", "tl.arange needs a power of two: round the block up with "
                                "triton.next_power_of_2 and mask the surplus."),
    "first_block_only": ("exe failed: ", "One tile of 256 columns is read and the rest of the row is ignored. Loop over "
                         "the row and accumulate."),
    "host_method": ("call failed: compile_error", "tolist is a method of host tensors; inside a kernel the scalar "
                    "itself can be stored."),
    "index_within_tile": ("exe failed: ", "Values are found but positions are off in rows longer than one tile; the "
                          "selection between tiles may be at fault."),
    "int32_result": ("failed: wrong_dtype", "The reference returns int64 positions."),
    "wrong_divisor": ("exe failed: ", "The mean divides by programs times BLOCK. Divide by the number of elements."),
    "bad_import": ("call failed: import_error", "There is no triton.indexing; the import is not needed at all."),
    "wrong_stride": ("exe failed: ", "The source offset uses the result's size along dim as the outer stride. It must "
                     "be the input's size."),
    "wrong_length": ("failed: wrong_shape", "The output length must count the padding on both sides."),
    "divides_by_inside": ("exe failed: ", "Windows that reach over the border come out too large: padding counts in "
                          "the divisor."),
    "no_such_function": ("call failed: compile_error", "tl.libdevice is gone; tl.erf does the same."),
    "alpha_ignored": ("exe failed: ", "Cases with alpha other than one are wrong: alpha is never multiplied in."),
    "static_range_runtime": ("call failed: compile_error", "tl.static_range needs a compile-time bound; use range."),
    "wrong_channel": ("exe failed: ", "The channel of element i is (i // S) % C, not i % C."),
    "biased_running_var": ("exe failed: ", "The running variance takes the unbiased estimate."),
    "column_scale_lost": ("exe failed: ", "Rows are scaled back, columns are not."),
    "int8_wraps": ("exe failed: ", "Scaling by 255 and casting without a clamp lets int8 wrap around."),
    "float_product": ("not_quantized", "The task asks for an int8 product with int32 accumulation."),
}
REFLECTION_RIGHT = ("The kernel is right. What is left is memory traffic: keep one pass over the data and enough work a "
                    "program to hide latency.")
STRATEGY = {
    "single-shot": "I load a tile with a mask, compute in float32 and write the result once.",
    "fresh": ("I split the output over programs and mask the last tile.",
              "I keep the wrapper thin and let one kernel do all the arithmetic."),
    "debug": ("The feedback points at one place; I change that and keep the rest.",
              "I rewrote the part that the judge refused."),
    "optimizer": ("I keep the accepted structure and adjust the work a program does.",
                  "The accepted kernel is bound by memory, so I leave its access pattern and tune the launch."),
}
PROSE_TEXT = ("An efficient implementation assigns one program to each row, reduces along the row with a tree in registers "
              "and writes the result back once. Coalesced loads matter most; shared memory is managed by the compiler. "
              "With these points in mind the kernel follows directly.")


def code_of(task, kernel):
    with open(os.path.join(KERNELS, task, kernel + ".py"), encoding="utf-8") as file:
        return file.read().split("\n", 1)[1]  # the first line tells what the file demonstrates


def distinctive_line(task, kernel):
    """The longest line of this kernel that no other kernel of the task has, else its first kernel's definition."""
    others = set()
    for name in os.listdir(os.path.join(KERNELS, task)):
        if name.endswith(".py") and name != kernel + ".py":
            others.update(line.strip() for line in code_of(task, name[:-3]).split("\n"))
    lines = [line.strip() for line in code_of(task, kernel).split("\n")]
    own = [line for line in lines if line and line not in others]
    return max(own, key=len) if own else next(line for line in lines if line.startswith("def "))


def reply_text(task, kernel, strategy):
    """(text, finish_reason)"""
    if kernel == PROSE:
        return PROSE_TEXT, "stop"
    if kernel.startswith(TRUNCATED):
        code = code_of(task, kernel[len(TRUNCATED):])
        return f"{strategy}\n\n```python\n{code[: len(code) * 3 // 5]}", "length"
    return f"{strategy}\n\n```python\n{code_of(task, kernel)}```\n", "stop"


def record(task, method, role, iteration, slot, must_contain, text, finish_reason="stop"):
    # No tokenizer ran: the counts are estimates of four characters a token, so that costs have something to add up.
    usage = {"prompt_tokens": 700 + sum(map(len, must_contain)) // 4 + 400 * iteration,
             "completion_tokens": len(text) // 4}
    return {"task": task, "method": method, "role": role, "iteration": iteration, "slot": slot, "sample": 0,
            "must_contain": must_contain, "reply": {"text": text, "finish_reason": finish_reason, "usage": usage}}


def has_code(kernel):
    return kernel != PROSE and not kernel.startswith(TRUNCATED)


def is_right(kernel):
    return has_code(kernel) and kernel not in WRONG


def geak(task, rounds):
    accepted = []
    for iteration, kernels in enumerate(rounds):
        mode = "fresh" if iteration == 0 else ("optimizer" if accepted else "debug")
        for slot, kernel in enumerate(kernels):
            must_contain = []
            if mode == "optimizer":
                must_contain = [distinctive_line(task, accepted[0])]
            elif mode == "debug":
                previous = rounds[iteration - 1][slot]
                if has_code(previous):
                    must_contain = [distinctive_line(task, previous), WRONG[previous][0]]
            text, finish_reason = reply_text(task, kernel, STRATEGY[mode][slot])
            role = "optimizer" if mode == "optimizer" else "generator"
            yield record(task, "geak", role, iteration, slot, must_contain, text, finish_reason)
        if iteration + 1 < len(rounds):
            for slot, kernel in enumerate(kernels):
                if has_code(kernel):
                    text = REFLECTION_RIGHT if is_right(kernel) else WRONG[kernel][1]
                    must_contain = [distinctive_line(task, kernel)]
                    yield record(task, "geak", "reflector", iteration, slot, must_contain, text)
        accepted += [kernel for kernel in kernels if is_right(kernel)]


def records():
    for task, (single, rounds) in STORY.items():
        text, finish_reason = reply_text(task, single, STRATEGY["single-shot"])
        yield record(task, "single-shot", "generator", 0, 0, [], text, finish_reason)
        yield from geak(task, rounds)


def main():
    text = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records())
    if "--check" in sys.argv[1:]:
        with open(TARGET, encoding="utf-8") as file:
            if file.read() != text:
                raise SystemExit(f"{TARGET} is not what tests/kernels and this script give; run tools/make_recording.py")
        return
    os.makedirs(os.path.dirname(TARGET), exist_ok=True)
    with open(TARGET, "w", encoding="utf-8") as file:
        file.write(text)
    print(f"{TARGET}: {text.count(chr(10))} replies")


main()
