# task: mul; expect: runtime_error
# Raises an exception whose cause has the exception itself as its cause.
def mul(input, other):
    one, another = ValueError("one"), ValueError("another")
    one.__cause__, another.__cause__ = another, one
    raise one
