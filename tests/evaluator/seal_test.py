"""Who sees true values during a sealed call. Run by ctest with the Python of anneal-evald."""
import os
import sys
import unittest

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "evaluator", "python"))

from anneal_eval.guard import Guard  # noqa: E402
from anneal_eval.host_operators import HostOperators  # noqa: E402


def raw(tensor):
    """The memory itself, as host code sees it that calls no operator."""
    with torch.utils._python_dispatch._disable_current_modes():
        return tensor.clone()


class Sealed(unittest.TestCase):
    def setUp(self):
        self.host = HostOperators()
        self.x = torch.arange(1.0, 33.0)

    def test_operators_see_true_values_and_other_code_decoys(self):
        true = self.x.clone()
        with self.host.seal.call([self.x]), self.host:
            doubled = self.x * 2
            seen, seen_result = raw(self.x), raw(doubled)
        self.assertTrue(torch.equal(self.x, true))
        self.assertTrue(torch.equal(doubled, true * 2))
        self.assertEqual(int((seen == true).sum()), 0)
        self.assertEqual(int((seen_result == true * 2).sum()), 0)

    def test_what_other_code_writes_is_lost(self):
        true = self.x.clone()
        with self.host.seal.call([self.x]), self.host:
            with torch.utils._python_dispatch._disable_current_modes():
                self.x.fill_(7)
        self.assertTrue(torch.equal(self.x, true))

    def test_kernels_see_true_values_and_what_they_write_is_kept(self):
        out, true = torch.zeros(32), self.x.clone()
        with self.host.seal.call([self.x]), self.host:
            with self.host.seal.kernel([self.x, out]):
                seen = raw(self.x)
                with torch.utils._python_dispatch._disable_current_modes():
                    out.copy_(self.x)
            after = raw(out)
        self.assertTrue(torch.equal(seen, true))
        self.assertEqual(int((after == true).sum()), 0)
        self.assertTrue(torch.equal(out, true))

    def test_views_and_integers_and_single_elements(self):
        indices, flag = torch.arange(10), torch.tensor(3.0)
        with self.host.seal.call([indices, self.x, flag]), self.host:
            part = self.x[4:8].contiguous() + indices[1:5] + flag
            indices.add_(1)
            seen = raw(indices)
        self.assertEqual(part.tolist(), [9.0, 11.0, 13.0, 15.0])
        self.assertEqual(indices.tolist(), list(range(1, 11)))
        self.assertNotEqual(seen.tolist(), indices.tolist())

    def test_resized_memory_keeps_its_values(self):
        with self.host.seal.call([self.x]), self.host:
            copy = self.x.clone()
            copy.resize_(64)
            first = copy[:32].clone()
        self.assertTrue(torch.equal(first, self.x))

    def test_numbers_are_read_true(self):
        self.host.watch_exports()
        with self.host.seal.call([self.x]), self.host:
            read = [self.x[3].item(), int(self.x[4]), float(str(self.x[5])[7:-1]), self.x[6:8].tolist()]
        self.assertEqual(read, [4.0, 5, 6.0, [7.0, 8.0]])

    def test_an_exception_leaves_true_values(self):
        true = self.x.clone()
        with self.assertRaises(ValueError), self.host.seal.call([self.x]):
            raise ValueError
        self.assertTrue(torch.equal(self.x, true))

    def test_a_fault_of_its_own_ends_it(self):
        true, roll = self.x.clone(), torch.Tensor.roll

        def short_of_memory(*args):
            raise MemoryError

        torch.Tensor.roll = short_of_memory
        try:
            with self.assertRaises(MemoryError), self.host.seal.call([self.x]):
                pass
        finally:
            torch.Tensor.roll = roll
        self.assertFalse(self.host.seal.active)
        self.assertTrue(torch.equal(self.x, true))

    def test_inference_mode_and_another_default_device_do_not_matter(self):
        true = self.x.clone()
        with self.host.seal.call([self.x]), self.host:
            with torch.inference_mode(), torch.device("meta"):
                doubled = self.x * 2
        self.assertTrue(torch.equal(doubled, true * 2))
        self.assertTrue(torch.equal(self.x, true))

    def test_arrays_that_leave_are_true_copies(self):
        self.host.watch_exports()
        with self.host.seal.call([self.x]), self.host:
            array = self.x.numpy()
            array[0] = 99
        self.assertEqual(array[1], 2.0)
        self.assertEqual(self.x[0], 1.0)

    def test_tensors_over_parts_of_one_memory(self):
        true, part = self.x.clone(), torch.from_numpy(self.x.numpy()[8:24])
        with self.host.seal.call([self.x]), self.host:
            self.assertTrue(torch.equal(part, true[8:24]))
            part.add_(1)
        self.assertTrue(torch.equal(self.x[8:24], true[8:24] + 1))
        self.assertTrue(torch.equal(self.x[24:], true[24:]))

    def test_what_nobody_holds_is_not_kept(self):
        with self.host.seal.call([self.x]), self.host:
            for _ in range(10):
                self.x + 1
                with self.host.seal.kernel([self.x]):
                    pass
            self.assertLessEqual(len(self.host.seal._all), 2)

    def test_integers_do_not_keep_their_sum(self):
        numbers = torch.arange(100)
        with self.host.seal.call([numbers]), self.host:
            sums = {int(raw(numbers).sum()) for _ in range(4)}
        self.assertNotIn(4950, sums)


class Guarded(unittest.TestCase):
    def test_names_the_first_that_was_replaced(self):
        class Thing:
            def work(self):
                return 1

        guard = Guard([Thing])
        Thing.added = 1
        self.assertEqual(guard.changed(), "")
        Thing.work = lambda self: 2
        self.assertEqual(guard.changed(), "Thing.work")
        Thing.__repr__ = object.__repr__  # what it is anyway
        del Thing.work
        self.assertEqual(guard.changed(), "Thing.work")

    def test_a_name_that_hides_a_base_classs_is_found(self):
        class Base:
            def work(self):
                return 1

        class Thing(Base):
            pass

        guard = Guard([Thing])
        self.assertEqual(guard.changed(), "")
        Thing.work = lambda self: 2
        self.assertEqual(guard.changed(), "Thing.work")


if __name__ == "__main__":
    unittest.main()
