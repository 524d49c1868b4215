# task: mul; expect: runtime_error
# Raises an exception that says 50 million letters.
class Talkative(Exception):
    def __str__(self):
        return "a" * 50_000_000


def mul(input, other):
    raise Talkative()
