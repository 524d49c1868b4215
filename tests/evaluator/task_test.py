"""Which files of a folder are tasks. Run by ctest with the Python of anneal-evald."""
import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "evaluator", "python"))

from anneal_eval.task import read_suite  # noqa: E402

TASK = '"""\n---\nsignature: "f(x)"\nprecisions: [fp32, fp16]\nextra_precisions: [bf16]\ncomparison: exact\n---\nText.\n"""\n'


class ReadSuite(unittest.TestCase):
    def test_every_form_is_a_task(self):
        self.assertEqual(set(self.read("Math/f.py")), {"f", "f_fp16", "f_bf16"})

    def test_what_begins_with_a_dot_or_an_underscore_is_no_task(self):
        found = self.read("Math/f.py", "Math/_common.py", "Math/.f.py", "_shared/f.py", ".git/f.py", "Math/notes.txt", "README.py")
        self.assertEqual(set(found), {"f", "f_fp16", "f_bf16"})

    def read(self, task, *others):
        with tempfile.TemporaryDirectory() as folder:
            for name in (task, *others):
                file = os.path.join(folder, name)
                os.makedirs(os.path.dirname(file), exist_ok=True)
                with open(file, "w", encoding="utf-8") as out:
                    out.write(TASK if name == task else "import torch\n")
            return read_suite(folder)


if __name__ == "__main__":
    unittest.main()
