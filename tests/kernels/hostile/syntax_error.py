# task: mul; expect: syntax_error
# A colon is missing.
def mul(input, other)
    return input
