"""_allocator - what a replay has to know of PyTorch's caching allocator and no report of a block says.

    its settings     PyTorch's version and PYTORCH_ALLOC_CONF / PYTORCH_CUDA_ALLOC_CONF as they were read, as rows of table meta;
                     a limit (set_per_process_memory_fraction) in bytes
    empty_cache      as an event before the call
    private pools    from where on and until where requests of a thread (use_mem_pool), or of a stream that is captured (CUDA
                     graphs), go to a pool of their own; with the line that made the pool, or captures
    record_stream    of which block, and for which stream

The functions of torch._C that all of PyTorch's own functions for this end in are wrapped.  What happens before the first allocation is kept
by the library until the recording begins.  Settings become final when PyTorch first needs them: so PyTorch itself, from 2.12 on, is asked
for them only when it has memory, after a model's first call.
"""

import contextlib
import functools
import os
import re
import sys
import weakref

import vramscope
from . import _contracts as vramscope_contracts
from . import _dynamo as vramscope_dynamo

EMPTY_CACHE, MEMORY_LIMIT, POOL_BEGIN, POOL_END, FACT, BLOCK_SHARED = 36, 37, 38, 39, 43, 44  # enum vs_op
CAPTURE = 1  # of POOL_BEGIN: requests of the current stream, as those that are captured are, and not of the thread

_MIB = 1 << 20
_NEW_NAME = (2, 10)  # from this version on PYTORCH_ALLOC_CONF is read, where the old name is not in the environment


def _tell(op, device=-1, number=0, more=0, key=b"", value=b""):
    return vramscope._library.get("auto_allocator", lambda *_: 0)(op, device, number, more, key, value)


def _fact(key, value):
    _tell(FACT, key=key.encode(), value=str(value).encode("utf-8", "replace"))


# ---- settings ----


def _words(conf):
    """The settings of a configuration's text: name -> value; a list in brackets stays a text."""
    found = {}
    for name, value in re.findall(r"([A-Za-z_0-9]+)\s*:\s*(\[[^\]]*\]|[^,]*)", conf):
        found[name] = value.strip()
    return found


def _divisions(text):
    """The divisions for all sizes; -1 where they differ by size."""
    numbers = [int(n) for n in re.findall(r":\s*(\d+)", text)] if text.startswith("[") else [int(text)]
    same = len(set(numbers)) == 1 and (not text.startswith("[") or "256:" in text.replace(" ", ""))
    return numbers[0] if same else -1


def _tell_settings(conf):
    words = _words(conf)
    split = words.get("max_split_size_mb")
    roundup = words.get("roundup_power2_divisions")
    _fact("torch_alloc_conf", conf)
    _fact("torch_max_split_size", int(split) * _MIB if split else -1)
    _fact("torch_garbage_collection_threshold", float(words.get("garbage_collection_threshold", 0)))
    _fact("torch_roundup_power2_divisions", _divisions(roundup) if roundup else 0)
    _fact("torch_expandable_segments", int(words.get("expandable_segments", "False") == "True"))
    if "per_process_memory_fraction" in words:
        _fact("torch_memory_fraction", float(words["per_process_memory_fraction"]))


def _version(torch):
    return tuple(int(n) for n in re.findall(r"\d+", torch.__version__)[:2])


def _conf(torch):
    """The configuration that PyTorch reads."""
    new = os.environ.get("PYTORCH_ALLOC_CONF", "") if _version(torch) >= _NEW_NAME else ""
    return os.environ.get("PYTORCH_CUDA_ALLOC_CONF", new)


_settings_told = None  # the configuration's text


def _read_settings(torch):
    """At torch's import, and again where CUDA is initialized: PyTorch reads its settings when it first needs them."""
    _use(_conf(torch))


def _use(conf):
    global _settings_told
    if conf == _settings_told:
        return
    _settings_told = conf
    try:
        _tell_settings(conf)
    except Exception:
        pass  # PyTorch does not take it either


_is_confirmed = False


def confirm(torch):
    """Takes the settings that PyTorch says it has, once it has memory, and thus settings."""
    global _is_confirmed
    ask = getattr(torch._C, "_accelerator_getAllocatorSettings", None)
    if ask is None or _is_confirmed or not torch.cuda.is_initialized():
        return
    try:
        if torch.cuda.memory_reserved():
            _is_confirmed = True
            _use(ask())
    except Exception:
        pass


# ---- wrappers ----


def _before(function, tell):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        try:
            tell(*args, **kwargs)
        except Exception:
            pass  # the call is the program's, and must happen
        return function(*args, **kwargs)

    vramscope_dynamo.skip(wrapper)
    return wrapper


def _after(function, tell):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        result = function(*args, **kwargs)
        try:
            tell(*args, **kwargs)
        except Exception:
            pass
        return result

    vramscope_dynamo.skip(wrapper)
    return wrapper


_unnamed = 1 << 56  # numbers of pools whose ids are not known yet; a reader takes no number from 1 << 61 on
_numbers = {}  # pool's id -> its number, where that is not made of the id


_FRAMES, _TEXT = 8, 699  # of a call stack
_inner = []  # folders and files whose frames say nothing of who called: PyTorch's, ours
_made = {}  # MemPool's id -> the call stack that made it


def _stack():
    """The call stack, from the innermost frame outside of PyTorch on."""
    text, frames, frame = "", 0, sys._getframe(1)
    while frame is not None and frames < _FRAMES:
        code = frame.f_code
        if frames or not code.co_filename.startswith(tuple(_inner)):
            row = f"{getattr(code, 'co_qualname', code.co_name)}\t{frame.f_lineno or 0}\t{code.co_filename}\n"
            if len((text + row).encode("utf-8", "replace")) > _TEXT:
                break
            text += row
            frames += 1
        frame = frame.f_back
    return text.encode("utf-8", "replace")


def _number(pool):
    """A pool's id, which is two numbers, as one that is not 0."""
    return _numbers.get(tuple(pool), (pool[0] << 32 | pool[1] & 0xFFFFFFFF) & (1 << 56) - 1)


def _wrap(torch, name, how, tell):
    """Every name by which PyTorch's own code calls torch._C.NAME."""
    function = getattr(torch._C, name, None)
    if function is None:
        return
    wrapper = how(function, tell)
    setattr(torch._C, name, wrapper)
    memory = getattr(getattr(torch, "cuda", None), "memory", None)
    if getattr(memory, name, None) is function:
        setattr(memory, name, wrapper)


def _wrap_captures(torch):
    graph = getattr(getattr(torch.cuda, "graphs", None), "CUDAGraph", None)
    if graph is None or "capture_begin" not in graph.__dict__ or "capture_end" not in graph.__dict__:
        return

    open_captures = weakref.WeakKeyDictionary()  # graph -> number

    def began(self, pool=None, *_, **__):
        global _unnamed
        if pool is None:  # the graph says its pool's id when the capture has ended
            _unnamed += 1
        open_captures[self] = _unnamed if pool is None else _number(pool)
        _tell(POOL_BEGIN, torch.cuda.current_device(), open_captures[self], CAPTURE, value=_stack())

    def ended(self, *_, **__):
        number = open_captures.pop(self)
        _tell(POOL_END, torch.cuda.current_device(), number)
        if number != _number(self.pool()):
            _numbers[tuple(self.pool())] = number

    graph.capture_begin = _after(graph.capture_begin, began)
    graph.capture_end = _after(graph.capture_end, ended)


def _wrap_pools(torch):
    """Before 2.8 the end has the name of the current stream's begin, and once had no pool."""
    names = ("_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool")
    if not any(hasattr(torch._C, name) for name in names):
        return

    open_pools = {}  # device -> numbers

    def begins(device, pool, *_, flags=0):
        open_pools.setdefault(int(device), []).append(_number(pool))
        _tell(POOL_BEGIN, int(device), _number(pool), flags, value=_made.get(tuple(pool)) or _stack())

    def ends(device, pool=None, *_):
        begun = open_pools.get(int(device), [])
        number = _number(pool) if pool is not None else begun[-1]
        if number in begun:
            begun.remove(number)
        _tell(POOL_END, int(device), number)

    for name in ("_cuda_beginAllocateToPool", "_cuda_beginAllocateCurrentThreadToPool"):
        _wrap(torch, name, _before, begins)
    _wrap(torch, "_cuda_beginAllocateCurrentStreamToPool", _before, functools.partial(begins, flags=CAPTURE))
    for name in names:
        _wrap(torch, name, _after, ends)


def _wrap_makers(torch):
    pools = getattr(torch.cuda, "MemPool", None)
    if pools is not None and "__init__" in vars(pools):

        def made(self, *_, **__):
            _made[tuple(self.id)] = _stack()

        pools.__init__ = _after(pools.__init__, made)


def _wrap_record_stream(torch):
    # unlike data_ptr() it makes no copy of a storage that is shared until it is written
    address_of = getattr(torch._C, "_data_address", None) or (lambda tensor: tensor.untyped_storage().data_ptr())

    def shared(self, stream):
        with torch._C.DisableTorchFunction():  # a mode of the program's does not see what we ask
            if self.is_cuda:
                _tell(BLOCK_SHARED, self.get_device(), address_of(self), stream.stream_id)

    tensor = getattr(torch, "Tensor", None)
    if hasattr(tensor, "record_stream"):
        tensor.record_stream = _before(tensor.record_stream, shared)


# one of each line is there
_CALLS = (
    ("_cuda_emptyCache",),
    ("_cuda_setMemoryFraction",),
    ("_cuda_cudaCachingAllocator_set_allocator_settings", "_accelerator_setAllocatorSettings"),
    ("_cuda_beginAllocateCurrentThreadToPool", "_cuda_beginAllocateToPool", "_cuda_beginAllocateCurrentStreamToPool"),
    ("_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool"),
)


def _look(torch):
    missing = [" or ".join(names) for names in _CALLS if not any(hasattr(torch._C, name) for name in names)]
    graph = vars(getattr(getattr(torch.cuda, "graphs", None), "CUDAGraph", object))
    missing += [f"CUDAGraph.{name}" for name in ("capture_begin", "capture_end") if name not in graph]
    if missing:
        raise vramscope_contracts.Otherwise("it has no " + ", ".join(missing))
    return "its allocator is told by functions of the names that are known"


def install(torch):
    """Called once, when torch has been imported."""
    if "auto_allocator" not in vramscope._library or not hasattr(getattr(torch, "_C", None), "_cuda_emptyCache"):
        return

    def limited(fraction, device=None, *_):
        device = torch.cuda.current_device() if device is None else int(device)
        _tell(MEMORY_LIMIT, device, int(fraction * torch.cuda.get_device_properties(device).total_memory))

    set_by_program = []

    def initialized():
        if not set_by_program:
            _read_settings(torch)

    def set_settings(conf, *_):
        global _settings_told
        set_by_program.append(conf)
        _settings_told = conf
        _tell_settings(conf)
        if torch.cuda.is_initialized() and torch.cuda.memory_reserved():
            _fact("torch_settings_changed", 1)

    vramscope_contracts.holds("allocator_calls", _look, torch)
    _fact("torch_version", torch.__version__)
    _read_settings(torch)
    if hasattr(torch.cuda, "_lazy_call"):
        torch.cuda._lazy_call(initialized)
    for name in ("_cuda_emptyCache", "_accelerator_emptyCache"):
        _wrap(torch, name, _before, lambda *_: _tell(EMPTY_CACHE))
    _wrap(torch, "_cuda_setMemoryFraction", _after, limited)
    for name in ("_cuda_cudaCachingAllocator_set_allocator_settings", "_accelerator_setAllocatorSettings"):
        _wrap(torch, name, _after, set_settings)
    folders = (os.path.dirname(module.__file__) for module in (torch, vramscope) if getattr(module, "__file__", None))
    _inner.extend(folder + os.sep for folder in folders)
    _inner.extend((contextlib.__file__, functools.__file__))
    _wrap_pools(torch)
    _wrap_makers(torch)
    _wrap_captures(torch)
    _wrap_record_stream(torch)
