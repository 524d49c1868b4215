"""What is said of exceptions whose class is the candidate's own. Run by ctest with the Python of anneal-evald."""
import json
import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "evaluator", "python"))

from anneal_eval.candidate import DETAIL_CHARS, MESSAGE_CHARS, Candidate  # noqa: E402


def said_of(raising):
    """The outcome, once for a file that raises so when it is called and once for one that does so when it is loaded."""
    outcomes = []
    for text in ("def f():\n" + "".join(f"    {line}\n" for line in raising.splitlines()), raising + "\ndef f(): pass\n"):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write(text)
            file.flush()
            candidate = Candidate.__new__(Candidate)  # without an interpreter to install
            candidate.path, candidate.entry, candidate.on_cpu = file.name, "f", True
            outcome = json.loads(candidate.load())
            if outcome["class"] == "ok":
                try:
                    candidate.function()
                except BaseException as error:
                    outcome = json.loads(candidate.failure(error))
            outcomes.append(outcome)
    return outcomes


class Raised(unittest.TestCase):
    def expect(self, raising, message, *details):
        for outcome, its_class in zip(said_of(raising), ("runtime_error", "import_error")):
            with self.subTest(its_class):
                self.assertEqual(outcome["class"], its_class)
                self.assertEqual(outcome["message"], message)
                for one in details:
                    self.assertIn(one, outcome["detail"])
                self.assertLessEqual(len(outcome["detail"]), DETAIL_CHARS)

    def test_an_ordinary_one(self):
        self.expect("raise ValueError('a\\nb')", "ValueError: a", "ValueError: a\nb", "in ")

    def test_causes_in_a_circle_are_told_once(self):
        self.expect("a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a", "ValueError: a",
                    "caused by ValueError: b")
        self.expect("a = ValueError('a')\nraise a from a", "ValueError: a")

    def test_of_many_causes_a_few_are_told(self):
        self.expect("a = ValueError('last')\nfor i in range(3000):\n    b = ValueError(str(i))\n    b.__cause__ = a\n    a = b\nraise a",
                    "ValueError: 2999", "caused by ValueError: 2998")

    def test_causes_of_the_compiler_in_a_circle(self):
        outcome = said_of("import triton\na = triton.CompilationError('x', None, 'a')\nb = triton.CompilationError('x', None, 'b')\n"
                          "a.__cause__, b.__cause__ = b, a\nraise a")[0]
        self.assertEqual(outcome["class"], "compile_error")
        self.assertTrue(outcome["message"].startswith("CompilationError: "), outcome)

    def test_what_cannot_be_said(self):
        for body in ("raise KeyError", "raise SystemExit(3)", "return 1", "return None", "return str(self)"):
            self.expect(f"class E(Exception):\n    def __str__(self): {body}\nraise E()", "E: <it cannot be said>")
        self.expect("class E(Exception):\n    def __str__(self): raise self\nraise ValueError('a') from E()", "ValueError: a",
                    "caused by E: <it cannot be said>")

    def test_a_text_without_end(self):
        for outcome in said_of("class E(Exception):\n    def __str__(self): return 'x' * 10 ** 8\nraise E() from E()"):
            self.assertEqual(outcome["message"], ("E: " + "x" * MESSAGE_CHARS)[:MESSAGE_CHARS])
            self.assertEqual(len(outcome["detail"]), DETAIL_CHARS)

    def test_a_text_of_a_class_of_its_own(self):
        self.expect("class S(str):\n    splitlines = strip = replace = encode = __getitem__ = __len__ = None\n"
                    "class E(Exception):\n    def __str__(self): return S('said')\nraise E()", "E: said")

    def test_fields_of_a_class_of_its_own(self):
        self.expect("class E(Exception):\n    __cause__ = __traceback__ = __context__ = property(lambda self: 1 / 0)\nraise E('a')", "E: a")
        self.expect("class M(type):\n    __name__ = property(lambda self: 1 / 0)\nclass E(Exception, metaclass=M): pass\nraise E('a')", "E: a")
        self.expect("class E(SyntaxError):\n    msg = property(lambda self: 1 / 0)\nraise E('a')", "E: what it says cannot be read")

    def test_a_class_that_another_claims_to_be(self):
        self.expect("from anneal_eval.kernel_body import UnsupportedOnCpu\n"
                    "class E(Exception):\n    __class__ = UnsupportedOnCpu\nraise E('a')", "E: a")

    def test_what_was_handled_is_told(self):
        self.expect("try:\n    {}['key']\nexcept KeyError:\n    raise ValueError('a')", "ValueError: a", "while handling KeyError: 'key'")
        for outcome in said_of("try:\n    {}['key']\nexcept KeyError:\n    raise ValueError('a') from None"):
            self.assertNotIn("KeyError", outcome["detail"])

    def test_a_group_names_its_members(self):
        self.expect("raise ExceptionGroup('some', [ValueError('a'), ExceptionGroup('b', [KeyError('c')])])",
                    "ExceptionGroup: some (2 sub-exceptions)", "of them ValueError: a", "of them ExceptionGroup: b")


if __name__ == "__main__":
    unittest.main()
