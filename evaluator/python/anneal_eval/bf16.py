"""bf16 arithmetic for Triton's interpreter, which holds bf16 as bits in uint16 and computes on the bits.

Every operation of the interpreter's builder that takes numbers is wrapped: bf16 operands are widened to fp32, and an
fp32 result of bf16 operands is rounded to nearest even, which is what the compiler makes of it on a GPU.
"""

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

_ARITHMETIC = ("binary_op", "unary_op", "ternary_op", "create_idiv", "create_erf", "create_rsqrt", "create_dot",
               "create_fma", "create_clampf", "create_fabs")


def widen(bits):
    """uint16 bits of bf16 as float32."""
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def narrow(values):
    """float32 to the bits of bf16 in uint16, rounded to nearest even; NaN stays NaN."""
    values = np.ascontiguousarray(values, dtype=np.float32)
    bits = values.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def _is_bf16(value):
    return isinstance(value, TensorHandle) and value.dtype.scalar == tl.bfloat16


def _widened(value):
    return TensorHandle(widen(value.data), tl.float32) if _is_bf16(value) else value


def _arithmetic(operation):
    def wrapped(self, *args, **kwargs):
        if not any(map(_is_bf16, args)):
            return operation(self, *args, **kwargs)
        result = operation(self, *map(_widened, args), **kwargs)
        if result.data.dtype == np.bool_:
            return TensorHandle(result.data, tl.int1)
        return TensorHandle(narrow(result.data), tl.bfloat16)

    return wrapped


def _dot(operation):
    def wrapped(self, a, b, d, *args, **kwargs):
        result = operation(self, _widened(a), _widened(b), _widened(d), *args, **kwargs)
        return TensorHandle(narrow(result.data), tl.bfloat16) if _is_bf16(d) else result

    return wrapped


def _cast(operation):
    def wrapped(self, source, target, *args, **kwargs):
        to_bf16 = target.scalar == tl.bfloat16
        if not to_bf16 and not _is_bf16(source):
            return operation(self, source, target, *args, **kwargs)
        if to_bf16 and _is_bf16(source):
            return source
        source = _widened(source)
        if to_bf16:
            return TensorHandle(narrow(source.data.astype(np.float32)), tl.bfloat16)
        return TensorHandle(source.data.astype(np.dtype(_numpy_name(target.scalar))), target.scalar)

    return wrapped


def _numpy_name(dtype):
    return {"fp16": "float16", "fp32": "float32", "fp64": "float64", "int1": "bool"}.get(dtype.name, dtype.name)


def _refuse(operation, unsupported):
    def wrapped(self, rmw_op, pointer, value, *args, **kwargs):
        if _is_bf16(value):
            raise unsupported("an atomic on bf16")
        return operation(self, rmw_op, pointer, value, *args, **kwargs)

    return wrapped


def install(unsupported):
    """Patches the builder of this process. unsupported: the exception for what stays impossible."""
    for name in _ARITHMETIC:
        if hasattr(InterpreterBuilder, name):
            wrap = _dot if name == "create_dot" else _arithmetic
            setattr(InterpreterBuilder, name, wrap(getattr(InterpreterBuilder, name)))
    for name in ("cast_impl", "create_fp_to_fp"):
        setattr(InterpreterBuilder, name, _cast(getattr(InterpreterBuilder, name)))
    InterpreterBuilder.create_atomic_rmw = _refuse(InterpreterBuilder.create_atomic_rmw, unsupported)
    InterpreterBuilder.get_bf16 = lambda self, value: TensorHandle(narrow(np.array([value])), tl.bfloat16)
