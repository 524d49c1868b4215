"""Autotuners forget what they chose before a kernel is timed. Run by ctest with the Python of anneal-evald."""
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "evaluator", "python"))

from triton.runtime.autotuner import Autotuner  # noqa: E402

from anneal_eval.candidate import Candidate  # noqa: E402


class Tuner:
    """What of an Autotuner counts here."""

    def __init__(self):
        self.cache = {}


class Tuning(unittest.TestCase):
    def test_is_forgotten_by_every_autotuner_that_ran(self):
        original = Autotuner.run
        Autotuner.run = lambda tuner, key: tuner.cache.setdefault(key, "chosen")
        try:
            candidate = Candidate.__new__(Candidate)  # a whole one for a GPU needs a GPU
            candidate.tuners = {}
            candidate._record_tuners()
            one, two, idle = Tuner(), Tuner(), Tuner()
            idle.cache["kept"] = "never ran"
            self.assertEqual(Autotuner.run(one, "a"), "chosen")
            Autotuner.run(one, "b"), Autotuner.run(two, "a")
            candidate.forget_tuning()
            self.assertEqual((one.cache, two.cache), ({}, {}))
            self.assertEqual(idle.cache, {"kept": "never ran"})
        finally:
            Autotuner.run = original


if __name__ == "__main__":
    unittest.main()
