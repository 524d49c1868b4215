"""What the static screen knows of names: which a kernel and its launch may use, and what is wrong with the others."""

import typing

import numpy

# What a kernel and its launch import. All other modules run other code or reach other processes, files, memory.
MODULES = {
    "torch", "triton", "numpy", "__future__", "abc", "argparse", "bisect", "collections", "contextlib", "copy", "dataclasses",
    "decimal", "enum", "fractions", "functools", "heapq", "itertools", "json", "logging", "math", "numbers", "operator", "os",
    "packaging", "pprint", "random", "re", "statistics", "string", "struct", "sys", "textwrap", "time", "traceback", "types",
    "typing", "typing_extensions", "warnings", "weakref",
}
# Modules that others hold (torch.ctypes, logging.os), so never to be written behind a dot, whatever stands before it.
HELD_MODULES = {
    "_io", "_thread", "anneal_eval", "asyncio", "builtins", "cffi", "cpp_extension", "ctypes", "ctypeslib", "cupy", "fcntl", "gc",
    "glob", "importlib", "inspect", "io", "linecache", "marshal", "mmap", "multiprocessing", "os", "pickle", "pkgutil",
    "runpy", "shutil", "socket", "subprocess", "sys", "tempfile", "threading", "zipfile",
}
# numpy reckons with sizes and scalars here; what makes arrays of tensors, reads files or runs text is not needed for that.
NUMPY = {name for name, one in vars(numpy).items() if isinstance(one, (numpy.ufunc, float))
         or (isinstance(one, type) and issubclass(one, numpy.generic))} | {
    "all", "allclose", "any", "arange", "argmax", "argmin", "argsort", "array", "array_equal", "ascontiguousarray", "clip",
    "concatenate", "cumprod", "cumsum", "dot", "dtype", "empty", "finfo", "full", "iinfo", "isclose", "linspace", "load", "max",
    "mean", "median", "min", "ndarray", "newaxis", "ones", "outer", "prod", "product", "random", "reshape", "round", "save",
    "sort", "stack", "std", "sum", "transpose", "unique", "var", "where", "zeros"}  # some of them are in PATHS, with a reason
TYPING = set(typing.__all__)
# Where only these names may be used. No name that begins with an underscore is, of any module.
ONLY = {
    "argparse": {"ArgumentParser", "ArgumentDefaultsHelpFormatter", "Namespace"},
    "contextlib": {"AbstractContextManager", "ContextDecorator", "ExitStack", "closing", "contextmanager", "nullcontext",
                   "suppress"},
    "copy": {"copy", "deepcopy"},
    "dataclasses": {"KW_ONLY", "InitVar", "asdict", "astuple", "dataclass", "field", "fields", "is_dataclass", "replace"},
    "functools": {"cache", "cached_property", "cmp_to_key", "lru_cache", "partial", "partialmethod", "reduce",
                  "total_ordering", "wraps"},
    "logging": {"CRITICAL", "DEBUG", "ERROR", "INFO", "WARNING", "NullHandler", "StreamHandler", "basicConfig", "critical",
                "debug", "disable", "error", "exception", "getLogger", "info", "warning", "Formatter", "Logger"},
    "numpy": NUMPY,
    "packaging": {"version"},
    "packaging.version": {"InvalidVersion", "Version", "parse"},
    "string": {"Template", "ascii_letters", "ascii_lowercase", "ascii_uppercase", "capwords", "digits", "hexdigits",
               "octdigits", "printable", "punctuation", "whitespace"},
    "torch.utils": set(),
    "traceback": {"format_exc", "format_exception", "format_exception_only", "print_exc", "print_exception", "print_stack"},
    "triton.tools": {"mxfp", "tensor_descriptor"},
    "types": {"EllipsisType", "GenericAlias", "MappingProxyType", "NoneType", "SimpleNamespace", "UnionType"},
    "typing": TYPING,
    "typing_extensions": TYPING | {"Buffer", "ReadOnly", "TypeIs", "deprecated", "override"},
    "warnings": {"catch_warnings", "filterwarnings", "simplefilter", "warn"},
    "weakref": {"WeakKeyDictionary", "WeakSet", "WeakValueDictionary", "proxy", "ref"},
    "os": {"environ", "getenv", "path", "name", "sep", "pathsep", "linesep", "cpu_count", "getpid", "getcwd", "fspath",
           "PathLike"},
    "os.environ": {"get", "items", "keys", "values", "copy", "setdefault"},
    "sys": {"version", "version_info", "platform", "maxsize", "byteorder", "float_info", "path", "argv", "executable", "exit",
            "stdout", "stderr", "getsizeof", "getrecursionlimit"},
    "torch.jit": {"is_scripting", "is_tracing", "ignore", "unused", "export", "Final"},
    "triton.backends": set(),
    "triton.compiler": {"errors", "CompilationError"},
    # `driver` is what persistent kernels ask for the number of multiprocessors.
    "triton.runtime": {"driver", "errors", "OutOfResources", "autotuner", "autotune", "heuristics", "Config", "jit"},
    "triton.runtime.autotuner": {"autotune", "heuristics", "Config", "OutOfResources"},
    "triton.runtime.driver": {"driver", "active"},
    "triton.runtime.jit": {"jit", "constexpr_function"},
}
# Everything at and below these.
PATHS = {
    "torch.compile": "stands in for a kernel",
    "torch.ops": "stands in for a kernel",
    "torch.classes": "loads other code",
    "torch.hub": "loads other code",
    "torch.package": "loads other code",
    "torch.load": "loads other code",
    "torch.serialization": "loads other code",
    "torch.distributed": "reaches other processes",
    "torch.export": "uses torch's compiler",
    "torch.fx": "uses torch's compiler",
    "torch.overrides": "hooks torch",
    # The judge sees a custom operator as one, whatever its body computes.
    "torch.library": "hides the operators in its body from the judge: call the kernel directly",
    "torch.autograd.profiler": "writes files",
    "torch.nn.DataParallel": "computes in other threads",
    "torch.nn.parallel": "computes in other threads",
    "torch.onnx": "writes files",
    "torch.profiler": "writes files",
    "torch.cuda.graph": "replays what it recorded",
    "torch.cuda.graphs": "replays what it recorded",
    "torch.cuda.cudart": "reaches below torch's interface",
    "torch.cuda.jiterator": "builds other code",
    "torch.save": "writes files",
    "torch.from_file": "reads files",
    "torch.storage": "computes on the host's memory",
    "torch.utils.deterministic": "hides memory that nobody wrote",
    "triton.compile": "reaches into Triton",
    "triton.knobs": "reaches into Triton",
    "triton.profiler": "writes files",
    "numpy.array": "computes on the host",
    "numpy.ascontiguousarray": "computes on the host",
    "numpy.load": "reads files",
    "numpy.save": "writes files",
}
# All else that is private in a module is not.
PRIVATE_ALLOWED = {"torch._assert", "torch._check", "torch._check_index", "torch._check_is_size", "torch._check_not_implemented",
                   "torch._check_type", "torch._check_value"} | {
    f"torch.nn.modules.utils.{name}" for name in ("_ntuple", "_single", "_pair", "_triple", "_quadruple", "_reverse_repeat_tuple")}
# Names behind a dot, whatever stands before it: an object may be any.
ATTRIBUTES = {
    "reads other frames": ("_getframe", "_current_frames", "currentframe", "f_locals", "f_globals", "f_builtins", "f_back",
                           "tb_frame", "gi_frame", "cr_frame", "ag_frame"),
    "builds code": ("f_code", "gi_code", "cr_code", "ag_code", "CodeType", "FunctionType"),
    "hooks the interpreter": ("settrace", "setprofile", "addaudithook"),
    "names what cannot be read": ("attrgetter", "methodcaller"),
    "runs text": ("get_type_hints", "ForwardRef", "evaluate_forward_ref", "get_annotations", "make_dataclass"),
    "reaches below torch's interface": ("_C", "CUDAPluggableAllocator", "change_current_allocator"),
    "uses torch's compiler": ("_inductor", "_dynamo", "inductor"),
    "builds other code": ("load_inline", "_compile_kernel"),
    "hooks torch": ("TorchDispatchMode", "TorchFunctionMode", "_make_subclass", "_make_wrapper_subclass",
                    "_python_dispatch"),
    "replays what it recorded": ("CUDAGraph", "make_graphed_callables"),
    "hides memory that nobody wrote": ("use_deterministic_algorithms", "set_deterministic_debug_mode"),
    "computes on the host": ("numpy", "from_numpy", "asarray", "asanyarray", "frombuffer", "fromfile", "memmap", "tolist",
                             "from_dlpack", "to_dlpack"),
    "computes on the host's memory": ("storage", "untyped_storage", "_typed_storage", "UntypedStorage", "TypedStorage"),
    "uses files": ("read_text", "read_bytes", "write_text", "write_bytes", "FileHandler", "FileType", "tofile"),
    "reaches into Triton": ("get_capture_scope", "used_global_vals", "JITFunction", "JITCallable", "KernelInterface",
                            "CompiledKernel", "Autotuner", "Heuristics", "InterpretedFunction", "launcher_cls", "load_binary", "set_active", "reset_active",
                            "launch_enter_hook", "launch_exit_hook", "jit_cache_hook", "jit_post_compile_hook",
                            "add_stages_inspection_hook", "add_pre_run_hook", "cache_hook", "compiled_hook"),
}
REASON = {name: reason for reason, names in ATTRIBUTES.items() for name in names}
# Dunders are the interpreter's own doors: only these are opened.
DUNDERS = {"__name__", "__qualname__", "__doc__", "__file__", "__version__", "__all__", "__init__", "__post_init__", "__call__",
           "__enter__", "__exit__", "__len__", "__iter__", "__next__", "__debug__"}
BOUND_DUNDERS = {"__all__", "__version__", "__author__", "__license__", "__slots__"}  # by assignment
HOOKS = {"__torch_function__", "__torch_dispatch__", "__array__", "__array_interface__", "__cuda_array_interface__",
         "__array_function__", "__array_ufunc__", "__dlpack__", "__dlpack_device__", "__name__"}
BUILTINS = {"exec", "eval", "compile", "__import__", "breakpoint", "open", "globals", "locals", "vars"}
ACCESSORS = {"getattr", "setattr", "delattr"}  # read as what they access, if that is written out
# Never assigned to, on whatever object: they would change what launching does.
NEVER_ASSIGNED = {"run", "device_caches", "create_binder", "_call_hook", "pre_run_hooks"}
FLAGS = {"allow_tf32", "enabled", "benchmark", "benchmark_limit", "deterministic", "fp32_precision", "conv",
         "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction"}  # of torch.backends
# Called with no more positional arguments than this and these keywords, and not used otherwise: `wraps` would copy any
# attribute that it is told to.
CALLS = {
    "functools.wraps": (1, set()),
    "logging.basicConfig": (0, {"level", "format", "datefmt", "force", "stream"}),
    "os.environ.setdefault": (2, set()),  # of SETTINGS
}
# Classes of Triton's that isinstance() and annotations may ask for; nothing else may be done with them.
KINDS = {f"{module}.{name}" for module, names in {
    "triton": ("JITFunction", "KernelInterface"),
    "triton.runtime": ("JITFunction", "KernelInterface", "Autotuner", "Heuristics"),
    "triton.runtime.jit": ("JITFunction", "KernelInterface"),
    "triton.runtime.autotuner": ("Autotuner", "Heuristics")}.items() for name in names}
ARRAYS = {"numpy.array", "numpy.asarray"}  # of numbers that are written out
# Of the environment, what a file may set. None of them changes who computes: on a GPU, CUDA and torch's allocator have read theirs
# by candidate.py's limit on memory, before the file is loaded, and it keeps Triton from reading the last two. Others choose
# Triton's tools, or what takes a compiled kernel's place.
SETTINGS = {
    "CUBLAS_WORKSPACE_CONFIG", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING",
    "CUDA_VISIBLE_DEVICES", "KMP_DUPLICATE_LIB_OK", "MKL_NUM_THREADS", "NCCL_DEBUG", "OMP_NUM_THREADS", "PYTHONHASHSEED",
    "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "TF_CPP_MIN_LOG_LEVEL", "TOKENIZERS_PARALLELISM", "TORCH_CUDA_ARCH_LIST",
    "TORCH_USE_CUDA_DSA", "TRITON_ALWAYS_COMPILE", "TRITON_DEBUG", "TRITON_DISABLE_LINE_INFO",
    "TRITON_PRINT_AUTOTUNING", "TRITON_CACHE_DIR", "TRITON_INTERPRET"}
# Where the kernel must make a product of int8 by itself.
INTEGER_TASK = {"torch.quantize_per_tensor", "torch.quantize_per_channel", "torch.dequantize", "torch.int_repr", "torch.q_scale",
                "torch.q_zero_point", "torch.ops.quantized", "torch.ops.aten", "torch._int_mm", "torch.ao", "torch.quantization"}
# Decorators that do not call what they are given.
KEEPS_UNCALLED = {"torch.inference_mode", "torch.no_grad", "triton.testing.perf_report"}
# Modules that may be imported and not used: the import itself does nothing.
UNUSED = {
    "asyncio", "atexit", "base64", "builtins", "cProfile", "cmath", "concurrent.futures", "csv", "ctypes", "datetime", "gc", "glob",
    "hashlib", "importlib", "importlib.util", "inspect", "io", "multiprocessing", "pathlib", "pdb", "pickle", "platform", "pstats",
    "queue", "secrets", "shutil", "signal", "socket", "subprocess", "tempfile", "threading", "timeit", "unittest", "unittest.mock",
    "uuid", "einops", "matplotlib", "matplotlib.pyplot", "pandas", "psutil", "pytest", "scipy", "tqdm", "torch.autograd.profiler",
    "torch.distributed", "torch.fx", "torch.library", "torch.multiprocessing", "torch.onnx", "torch.profiler", "torch.utils.benchmark", "torch.utils.checkpoint", "torch.utils.cpp_extension", "torch.utils.data",
    "triton.compiler", "triton.runtime", "triton.runtime.jit", "triton.runtime.autotuner", "triton.runtime.driver"}
# Besides modules, names that stand for these are followed, and they themselves are not used as values.
FOLLOWED = set(ONLY) - {"os.environ"} | set(CALLS) | KINDS
