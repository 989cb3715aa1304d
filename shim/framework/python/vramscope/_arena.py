"""_arena - PyTorch's memory from vramscope's arena, where VRAMSCOPE_ALLOCATOR=arena.

Before torch uses the GPU, the functions vramscope_torch_* of the preloaded library become its allocator (CUDAPluggableAllocator).  What
that interface leaves out is implemented here: statistics, their resets, the memory fraction, MemPool.  Figures are those of torch's own
allocator for the same requests, less the rests that it does not split off; where the arena has no such thing (splits, oversized segments)
they are 0, as torch does for cudaMallocAsync.

A program that chose an allocator keeps it: a backend in PYTORCH_CUDA_ALLOC_CONF, PYTORCH_NO_CUDA_MEMORY_CACHING (then each tensor is a
cudaMalloc, which the arena serves as well), an allocator that the program sets itself.  One line on stderr says so.
"""

import ctypes
import functools
import inspect
import os
import sys
import threading
import weakref

_KINDS = ("all", "small_pool", "large_pool")
_PARTS = ("current", "peak", "allocated", "freed")
_FIGURES = 64  # room for what vramscope_torch_stats tells: three times _KINDS times _PARTS, then these
_AFTER = "ooms retries reserved peak_reserved created released idle deferred granule settles".split()

GRAPHS = "torch._inductor.compile_fx"

_torch = None
_library = None
_allocator = None
_none = ()  # counts of torch.cuda's, where this torch has them, that are 0 here: what throw_on_cudamalloc_oom rejects
_kept = []  # (owner, name, what was there)
_said = set()


def _say(text):
    if text not in _said:
        _said.add(text)
        print(f"vramscope: {text}", file=sys.stderr)


# ---- figures ----


def _figures(device):
    values = (ctypes.c_uint64 * _FIGURES)()
    _library.vramscope_torch_stats(device, values, _FIGURES)
    return values


def _three(values, first):
    return {kind: dict(zip(_PARTS, values[first + 4 * i : first + 4 * i + 4])) for i, kind in enumerate(_KINDS)}


def _one(current=0, peak=0, allocated=0, freed=0):
    none = dict.fromkeys(_PARTS, 0)
    return {"all": dict(zip(_PARTS, (current, peak, allocated, freed))), "small_pool": dict(none), "large_pool": dict(none)}


def _memory_stats(device):
    values = list(_figures(device))
    rest = dict(zip(_AFTER, values[36:]))
    granule = rest["granule"] or 1
    reserved = (rest["reserved"], rest["peak_reserved"], rest["created"], rest["released"])
    segments = [figure // granule for figure in reserved]
    return {
        "allocation": _three(values, 0),
        "allocated_bytes": _three(values, 12),
        "requested_bytes": _three(values, 24),
        "active": _three(values, 0),
        "active_bytes": _three(values, 12),
        "segment": _one(*segments),
        "reserved_bytes": _one(*reserved),
        "inactive_split": _one(),
        "inactive_split_bytes": _one(),
        "oversize_allocations": dict.fromkeys(_PARTS, 0),
        "oversize_segments": dict.fromkeys(_PARTS, 0),
        "num_alloc_retries": rest["retries"],
        "num_ooms": rest["ooms"],
        **dict.fromkeys(_none, 0),
        "num_sync_all_streams": rest["settles"],
        "num_device_alloc": segments[2],
        "num_device_free": segments[3],
        "max_split_size": -1,
    }


def _accelerator_stats(device):
    return {name: value for name, value in _memory_stats(device).items() if name not in _none}


def _reset_peaks(device):
    _library.vramscope_torch_reset_peaks(device)


def _reset_accumulated(device):
    _library.vramscope_torch_reset_accumulated(device)


def _fraction(device):
    return _library.vramscope_torch_get_memory_fraction(device)


# ---- pools ----


class _Id(ctypes.Structure):
    _fields_ = [("first", ctypes.c_ulonglong), ("second", ctypes.c_ulonglong)]


def _release_pool(device, pool):
    if not _torch.cuda._is_in_bad_fork():
        _library.vramscope_torch_release_pool(device, pool)


def _pool_class(base):
    """torch.cuda.MemPool for the arena: torch's own can't be made with an allocator like ours.

    It takes what that version's takes.  What only guides how torch's own allocator fills a pool has no meaning here; anything else
    that is asked for is refused.
    """
    signature = inspect.signature(base.__init__)
    guides = "self", "use_on_oom", "no_split"

    class MemPool(object):
        __doc__ = base.__doc__

        @functools.wraps(base.__init__)
        def __init__(self, *args, **kwargs):
            for name, value in signature.bind(self, *args, **kwargs).arguments.items():
                if value and name not in guides:
                    what = "an allocator of their own" if name == "allocator" else f"{name}={value!r}"
                    raise RuntimeError(f"vramscope's arena has no pools with {what}: run without --allocator=arena")
            _torch.cuda._lazy_init()
            self._id = tuple(_torch._C._graph_pool_handle())
            self._device = _torch.cuda.current_device()
            _library.vramscope_torch_retain_pool(self._device, _Id(*self._id))
            weakref.finalize(self, _release_pool, self._device, _Id(*self._id)).atexit = False

        @property
        def id(self):
            return self._id

        @property
        def allocator(self):
            return None

        def use_count(self):
            return _library.vramscope_torch_pool_uses(self._device, _Id(*self._id))

        def snapshot(self, include_traces=True):
            return _torch.cuda.memory_snapshot(self._id, include_traces=include_traces)

    if hasattr(base, "is_symmetric"):
        MemPool.is_symmetric = property(lambda self: False)
    MemPool.__module__ = base.__module__
    MemPool.__qualname__ = base.__qualname__
    return MemPool


class _PoolContext:
    """torch.cuda.MemPoolContext, up to 2.7: there torch's own allocator finds the pool that is active, and ours is told."""

    _active = threading.local()

    def __init__(self, pool):
        self._before = self.active_pool()
        self._active.pool = pool

    def __del__(self):
        self._active.pool = self._before

    @staticmethod
    def active_pool():
        return getattr(_PoolContext._active, "pool", None)


def _retain_pool(graph, pool):
    """CUDAGraph._retain_pool, from 2.14 on: what is used while the graph is captured stays until its reset or its end."""
    id = _Id(*_torch.cuda.graphs._get_pool_id(pool))
    device = _torch.cuda.current_device()
    _library.vramscope_torch_retain_pool(device, id)
    graph.register_destroy_callback(functools.partial(_release_pool, device, id))


# ---- what torch does with its own allocator only ----


def _no_history(*_, **__):
    _say("the arena keeps no history for torch.cuda.memory._record_memory_history: vramscope records it")


def _history(*_):
    return False


def _not_here(what, instead):
    """Replaces functions that torch refuses with a message that sends people to torch's bug tracker."""

    def refuse(*_, **__):
        raise RuntimeError(f"vramscope's arena {what}: {instead}, or run without --allocator=arena")

    return refuse


_no_snapshot = _not_here("has no memory snapshot", "see `vramscope report` and `plot`")
_no_observer = _not_here("calls no observer of out of memory", "catch torch.OutOfMemoryError")
_no_sharing = _not_here("can't share this PyTorch's tensors with other processes", "share copies in host memory")
_SHARES = 2  # of what vramscope_torch_complete returns


def _trace_of(activate):
    """Replaces torch._C._activate_gpu_trace: streams and events are traced as before, blocks are not."""

    def activate_gpu_trace():
        _say("under the arena torch.cuda._gpu_trace sees no allocations: vramscope records them")
        activate()

    return activate_gpu_trace


def _plain_model(model, *_, **__):
    """Replaces inductor's cudagraphify, whose trees of graphs restore the state of torch's own allocator."""
    _say("under the arena torch.compile records no CUDA graphs of its own (mode reduce-overhead): kernels are launched one by one")
    return model


# ---- putting it in place ----


def _put(owner, name, function):
    if hasattr(owner, name):
        _kept.append((owner, name, getattr(owner, name)))
        setattr(owner, name, function)


def _take_back():
    while _kept:
        owner, name, before = _kept.pop()
        setattr(owner, name, before)


def _change_allocator(change):
    def change_current_allocator(allocator):
        change(allocator)
        if allocator is not _allocator:
            _take_back()
            _say("the program set an allocator of its own for PyTorch: not the arena's")

    return change_current_allocator


def _no_graphs_in(module):
    if _kept:
        _put(module, "cudagraphify", _plain_model)


def _answers(torch):
    """What is put in place when torch has its new allocator: (owner, name, function).  All that may fail fails here, before that."""
    c, memory = torch._C, torch.cuda.memory
    for prefix, stats, figures, peaks, accumulated in (
        ("_cuda_", "memoryStats", _memory_stats, "resetPeakMemoryStats", "resetAccumulatedMemoryStats"),
        ("_accelerator_", "getDeviceStats", _accelerator_stats, "resetPeakStats", "resetAccumulatedStats"),
    ):
        yield c, prefix + stats, figures
        yield c, prefix + peaks, _reset_peaks
        yield c, prefix + accumulated, _reset_accumulated
    # torch.accelerator asks the allocator that was registered first
    yield c, "_accelerator_isAllocatorInitialized", lambda: torch.cuda.is_initialized()
    yield c, "_accelerator_emptyCache", lambda: c._cuda_emptyCache()
    yield c, "_cuda_getMemoryFraction", _fraction
    yield c, "_cuda_isHistoryEnabled", _history
    yield c, "_cuda_record_memory_history", _no_history
    yield c, "_cuda_record_memory_history_legacy", _no_history
    yield c, "_cuda_memorySnapshot", _no_snapshot
    yield c, "_cuda_attach_out_of_memory_observer", _no_observer
    if hasattr(c, "_activate_gpu_trace"):
        yield c, "_activate_gpu_trace", _trace_of(c._activate_gpu_trace)
    yield c, "_cuda_changeCurrentAllocator", _change_allocator(c._cuda_changeCurrentAllocator)
    pools = [("MemPoolContext", _PoolContext)]
    if hasattr(memory, "MemPool"):
        pools.append(("MemPool", _pool_class(memory.MemPool)))
    for name, ours in pools:
        yield memory, name, ours
        yield torch.cuda, name, ours
    if hasattr(torch.cuda.CUDAGraph, "register_destroy_callback"):
        yield torch.cuda.CUDAGraph, "_retain_pool", _retain_pool


def _address(name):
    return ctypes.cast(getattr(_library, "vramscope_torch_" + name), ctypes.c_void_p).value


def _declare(library):
    numbers = ctypes.POINTER(ctypes.c_uint64)
    for name, result, arguments in (
        ("refusal", ctypes.c_char_p, []),
        ("stats", ctypes.c_int, [ctypes.c_int, numbers, ctypes.c_int]),
        ("reset_peaks", None, [ctypes.c_int]),
        ("reset_accumulated", None, [ctypes.c_int]),
        ("get_memory_fraction", ctypes.c_double, [ctypes.c_int]),
        ("retain_pool", None, [ctypes.c_int, _Id]),
        ("release_pool", None, [ctypes.c_int, _Id]),
        ("pool_uses", ctypes.c_int, [ctypes.c_int, _Id]),
    ):
        function = getattr(library, "vramscope_torch_" + name)
        function.restype, function.argtypes = result, arguments
    return library


def _preloaded():
    """The library, if it is in this process from its beginning."""
    try:
        return _declare(ctypes.CDLL(None))
    except AttributeError:
        return None


def _refusal():
    """The reason why torch keeps its own allocator; None: it uses the arena."""
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"):
        if "backend:" in os.environ.get(name, "").replace(" ", ""):
            return f"{name} names a backend: PyTorch keeps it"
    if "PYTORCH_NO_CUDA_MEMORY_CACHING" in os.environ:
        return "PYTORCH_NO_CUDA_MEMORY_CACHING is set: each tensor is a cudaMalloc, which the arena serves"
    why = _library.vramscope_torch_refusal()
    return why and why.decode("utf-8", "replace")


def _make(c):
    allocator = c._cuda_customAllocator(_address("malloc"), _address("free"))
    for setter, name in (
        ("set_record_stream_fn", "record_stream"),
        ("set_base_alloc_fn", "base_alloc"),
        ("set_reset_fn", "reset"),
        ("set_memory_fraction_fn", "memory_fraction"),
        ("set_begin_allocate_to_pool", "begin_allocate_to_pool"),
        ("set_end_allocate_to_pool_fn", "end_allocate_to_pool"),
        ("set_release_pool", "release_pool"),
    ):
        getattr(allocator, setter)(_address(name))
    return allocator


def install(module):
    """Called once for torch, and for the part of it that makes CUDA graphs, when it has been imported."""
    if module.__name__ == GRAPHS:
        _no_graphs_in(module)
    else:
        _install(module)


def _install(torch):
    global _torch, _library, _allocator, _none
    if not hasattr(torch._C, "_cuda_customAllocator"):
        return  # a torch without CUDA
    _torch, _library = torch, _preloaded()
    if _library is None:
        _say("libvramscope.so is not preloaded: PyTorch keeps its own allocator")
        return
    why = _refusal()
    if why is not None:
        _say(why)
        return
    answers, _allocator = list(_answers(torch)), _make(torch._C)
    _none = [name for name in ("num_oom_rejections",) if name in (torch.cuda.memory_stats.__doc__ or "")]
    try:
        torch._C._cuda_changeCurrentAllocator(_allocator)
    except RuntimeError:
        _say("PyTorch's allocator is in use already: it stays")
        return
    if not _library.vramscope_torch_complete() & _SHARES:
        answers.append((torch.UntypedStorage, "_share_cuda_", _no_sharing))
    for owner, name, function in answers:
        _put(owner, name, function)
    if GRAPHS in sys.modules:
        _no_graphs_in(sys.modules[GRAPHS])
