# task: mul; expect: runtime_error
# Raises an exception that raises another one when it is asked what it says.
class Silent(Exception):
    def __str__(self):
        raise KeyError("nothing to say")


def mul(input, other):
    raise Silent()
