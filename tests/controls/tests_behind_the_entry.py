# task: mul; expect: ok
# A test, a benchmark and a main function below the entry use what an entry may not: nobody calls them.
import time

import numpy as np
import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def mul_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * tl.load(y_ptr + offsets, mask=mask), mask=mask)


def mul(input, other):
    if not isinstance(other, torch.Tensor):
        other = torch.full((1,), float(other), dtype=input.dtype, device=input.device)
    x, y = torch.broadcast_tensors(input, other)
    x, y = x.contiguous(), y.contiguous()
    out = torch.empty_like(x)
    if out.numel() > 0:
        mul_kernel[(triton.cdiv(out.numel(), BLOCK),)](x, y, out, out.numel(), BLOCK=BLOCK)
    return out


def reference(input, other):
    return input.numpy() * np.asarray(other)


def test_mul():
    """Compares mul with the reference."""
    x, y = torch.rand(1000), torch.rand(1000)
    np.testing.assert_allclose(mul(x, y).numpy(), reference(x, y))
    print(mul(x, y).tolist()[:4])


@triton.testing.perf_report(
    triton.testing.Benchmark(x_names=["n"], x_vals=[2**i for i in range(12, 20)], line_arg="provider", line_vals=["triton", "torch"],
                             line_names=["Triton", "Torch"], ylabel="ms", plot_name="products", args={}))
def benchmark(n, provider):
    x = torch.rand(n)
    compiled = torch.compile(torch.mul)
    return triton.testing.do_bench(lambda: mul(x, x) if provider == "triton" else compiled(x, x))


def main():
    import subprocess

    start = time.time()
    test_mul()
    print(time.time() - start, subprocess.check_output(["nvidia-smi"]))
    with open("result.txt", "w") as file:
        file.write(str(benchmark))


if __name__ == "__main__":
    main()
