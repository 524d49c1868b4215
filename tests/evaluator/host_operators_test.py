"""What of torch's work is counted, and how it is told. Run by ctest with the Python of anneal-evald."""
import os
import sys
import unittest

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "evaluator", "python"))

from anneal_eval.host_operators import HostOperators  # noqa: E402


def counted(work):
    with HostOperators() as host:
        work()
    return host.report()


class Counted(unittest.TestCase):
    def test_what_a_launch_needs_is_not(self):
        x = torch.ones(8, 4)
        self.assertEqual(counted(lambda: (torch.empty(9), x.t().contiguous(), x.clone(), torch.empty(8, 4).copy_(x), x[1:, 2], x.unbind())), {})

    def test_inference_mode_changes_nothing(self):
        x = torch.ones(8, 4)
        with torch.inference_mode():
            self.assertEqual(counted(lambda: (torch.broadcast_tensors(x, x[0]), x.t().reshape(-1), x.to(torch.float64))), {})
            self.assertEqual(counted(lambda: torch.nn.functional.linear(x, x)), {"mm": 64})

    def test_operators_are_by_the_largest_tensor(self):
        x = torch.ones(8, 4)
        self.assertEqual(counted(lambda: (x.sum(), x + 1, x[0] + 1)), {"sum": 32, "add": 36})

    def test_moves_that_put_tensors_together_are(self):
        x, out = torch.ones(8, 4), torch.empty(8, 4)
        self.assertEqual(counted(lambda: torch.stack([x[0], x[1]])), {"stack": 8})
        self.assertEqual(counted(lambda: torch.cat([x, x])), {"cat": 64})
        self.assertEqual(counted(lambda: torch.nn.functional.pad(x, (0, 1))), {"constant_pad_nd": 40})
        self.assertEqual(counted(lambda: out[2].copy_(x[0])), {"copy_ into a part": 4})
        self.assertEqual(counted(lambda: out.__setitem__(3, x[0])), {"copy_ into a part": 4})


class Report(unittest.TestCase):
    def test_the_largest_are_named_and_the_rest_is_summed(self):
        host = HostOperators()
        host.elements = {f"op{i}": i for i in range(1, 67)}
        told = host.report()
        self.assertEqual(told.pop("other operators"), 1 + 2)
        self.assertEqual(told, {f"op{i}": i for i in range(3, 67)})


if __name__ == "__main__":
    unittest.main()
