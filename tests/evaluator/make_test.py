"""Drawn inputs: outlier tensors hold one for sure, draws repeat and differ. Run by ctest with the Python of anneal-evald."""
import math
import os
import sys
import unittest

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "evaluator", "python"))

from anneal_eval.make import OUTLIER_SCALE, Make, input_seed  # noqa: E402

make = Make("fp32")


class Outliers(unittest.TestCase):
    def test_one_element_is_an_outlier_in_every_draw(self):
        for mean in (0.0, 100.0):
            for seed in range(200):
                value = make.normal(1, mean=mean).materialise(seed, "outlier", "cpu").abs().item()
                self.assertGreaterEqual(value, OUTLIER_SCALE * math.hypot(mean, 1), f"mean {mean}, seed {seed}")

    def test_one_element_varies_also_in_bf16(self):
        values = {make.normal(1, dtype=torch.bfloat16).materialise(seed, "outlier", "cpu").item() for seed in range(50)}
        self.assertGreater(len(values), 25)

    def test_most_elements_stay_as_they_were(self):
        spec = make.normal(37, 101)
        for seed in range(20):
            standard, outlier = spec.materialise(seed, "standard", "cpu"), spec.materialise(seed, "outlier", "cpu")
            changed = (standard != outlier).sum().item()
            self.assertGreaterEqual(changed, 1)
            self.assertLess(changed, 30)

    def test_the_last_element_is_one_and_so_is_another_place(self):
        loud = OUTLIER_SCALE * math.hypot(0, 1)
        places = set()
        for seed in range(40):
            drawn = make.normal(4, 32).materialise(seed, "outlier", "cpu").abs().view(-1)
            self.assertGreaterEqual(drawn[-1].item(), loud)
            places |= set((drawn[:-1] >= loud).nonzero().view(-1).tolist())
        self.assertGreater(len(places), 20)

    def test_a_bounded_domain_has_none(self):
        spec = make.uniform(1000, lo=-1, hi=1)
        self.assertFalse(spec.has_outliers)
        self.assertLessEqual(spec.materialise(1, "outlier", "cpu").abs().max().item(), 1)

    def test_maps_come_after_the_outliers(self):
        spec = make.normal(8, 9).map(lambda t: t.t())
        self.assertTrue(spec.has_outliers)
        self.assertGreaterEqual(spec.materialise(3, "outlier", "cpu").abs().max().item(), OUTLIER_SCALE)


class Draws(unittest.TestCase):
    def test_a_seed_gives_the_same_values_and_another_one_others(self):
        for spec in (make.normal(64), make.uniform(64), make.permutation(64), make.integers(64, lo=0, hi=1000)):
            one, again, other = (spec.materialise(seed, "outlier", "cpu") for seed in (5, 5, 6))
            self.assertTrue(torch.equal(one, again))
            self.assertFalse(torch.equal(one, other))

    def test_the_seed_depends_on_everything_that_names_an_input(self):
        names = ["suite", "task", "case", "argument", "draw", "standard"]
        seeds = {input_seed(*names)} | {input_seed(*(names[:i] + ["x"] + names[i + 1:])) for i in range(len(names))}
        self.assertEqual(len(seeds), 7)


class Unaligned(unittest.TestCase):
    def test_the_first_element_lies_one_behind_sixteen_bytes_and_the_values_stay(self):
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            drawn = make.normal(7, 33, dtype=dtype)
            tensor = drawn.unaligned().materialise(1, "outlier", "cpu")
            self.assertEqual(tensor.data_ptr() % 16, dtype.itemsize)
            self.assertTrue(tensor.is_contiguous())
            self.assertTrue(torch.equal(tensor, drawn.materialise(1, "outlier", "cpu")))


if __name__ == "__main__":
    unittest.main()
