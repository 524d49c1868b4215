# task: mul; expect: ok
# Imports of a habit, which nothing in the file uses.
import ctypes
import gc
import inspect
import os
import subprocess
import sys
import threading
import time
import timeit
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.utils.benchmark as benchmark
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint
from torch.utils.cpp_extension import load, load_inline
from torch.utils.data import DataLoader
from triton.runtime import JITFunction

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
