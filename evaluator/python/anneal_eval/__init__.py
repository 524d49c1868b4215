"""The Python half of anneal-evald: what Triton and PyTorch need in Python. Everything else is C++."""
