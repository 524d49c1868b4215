# task: mul; expect: runtime_error
# An assertion of the kernel fails; on a GPU this spoils the context.
import torch
import triton
import triton.language as tl


@triton.jit(debug=True)
def asserts(out_ptr, n):
    tl.device_assert(n < 0, "declared to fail")
    tl.store(out_ptr, 1.0)


def mul(input, other):
    out = torch.empty_like(input)
    asserts[(1,)](out, 1)
    return out
