# task: mul; expect: out_of_memory
# Takes and touches the host's memory.
def mul(input, other):
    kept = []
    while True:
        kept.append(b"x" * (64 << 20))
