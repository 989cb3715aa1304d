"""_dry_values - which tensors of a dry run hold true contents, or assumed ones, and their computation on the CPU.

A kernel of a dry run writes nothing.  Small tensors of whole numbers and booleans decide sizes: masks, lengths, indices, counts.  So the
CUDA kernels of PyTorch are wrapped (_dry_wrap): an operator whose inputs all have followed contents is computed once more, on the CPU, over
the same bytes, and its outputs are followed, too.

A mark says what is followed: an attribute of the storage's Python object, which lives as long as the storage and keeps nothing alive.  No
mark: nothing is known.  Marks are of three levels:

    TRUE     what the program would see on a GPU: it came from the host, or from a computation over such
    RULE     one of the rules decided it that no assumption changes (no NaN, no overflow: _dry_rules)
    ASSUMED  an assumption decided it (routing, masks, random numbers); the second run has another

An operator's output has the lowest certainty of its inputs.  Whatever writes into memory without being computed takes its mark away.  What
a CUDA graph writes has no mark and gets none: each replay writes it again.
"""

import weakref

import torch

TRUE, RULE, ASSUMED = range(3)
KNOWN = (TRUE, "")
CAPTURED = (3, "a CUDA graph writes it")
MARK = "_vramscope_mark"

MOST = {torch.int64: 1 << 25}  # elements; one_hot of a router's choices is of these
MOST_WHOLE, MOST_FLOATS, MOST_FILLED = 1 << 20, 1 << 16, 1 << 12
WHOLE = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
_FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}

# where storages with a mark begin: no other is asked for its Python's object, which would then live as long as it does, and the
# engine, which adds gradients in place where a storage has one owner, would find two
_bases = {}

_storage_at = torch._C._construct_storage_from_data_pointer
_cpu, _histc = torch.device("cpu"), torch.ops.aten.histc.default
_graph_task = torch._C._current_graph_task_id
_has_storage = torch._C._has_storage
Tensor, NoFunctions = torch.Tensor, torch._C.DisableTorchFunction
is_capturing = getattr(torch._C, "_cuda_isCurrentStreamCapturing", lambda: False)


def is_small(t):
    dtype = t.dtype
    most = MOST.get(dtype, MOST_WHOLE) if dtype in WHOLE else MOST_FLOATS if dtype in _FLOATS else 0
    return t.numel() <= most


def _base(t):
    return t.data_ptr() - t.storage_offset() * t.element_size()


def _marked(t):
    """The storage with a mark where T's memory begins, or None; a sparse tensor has none itself."""
    if not _has_storage(t):
        return None
    base = _base(t)
    storage = _bases.get(base)
    if storage is None:
        return None
    storage = storage()
    if storage is None or storage.data_ptr() != base:
        del _bases[base]  # it is gone
        return None
    return storage


def mark_of(t):
    """(level, why), or None; of a large mask (level, why, what all of it is): see _dry_constant."""
    storage = _marked(t)
    mark = None if storage is None else getattr(storage, MARK)
    if mark is CAPTURED:
        return None
    if mark is not None and len(mark) > 2 and is_small(t) and t.numel():  # a part of it, which may be looked at
        alias(t).fill_(mark[2])
    return mark


def forget(t):
    """T was written by what is not followed."""
    storage = _marked(t)
    if storage is not None and getattr(storage, MARK) is not CAPTURED:
        delattr(storage, MARK)
        del _bases[_base(t)]


def _covers(t, storage):
    return t.numel() * t.element_size() >= storage.nbytes() and not t._is_zerotensor()


def put(t, mark, is_new=False):
    """All of T was written and has contents with this MARK.  IS_NEW: nothing else is in its storage that anybody reads."""
    if t.is_floating_point() and _graph_task() != -1:
        return forget(t)
    storage = _marked(t)
    there = None if storage is None else getattr(storage, MARK)
    if there is CAPTURED:
        return
    if there is not None and len(there) > 2 and not (is_new or _covers(t, storage)):
        return forget(t)  # it is not the same everywhere any more
    if storage is None:
        storage = t.untyped_storage()
    if is_capturing():
        mark = CAPTURED
    elif not (is_new or _covers(t, storage)) and (there is None or mark[0] <= there[0]):
        return
    setattr(storage, MARK, mark)
    _bases[_base(t)] = weakref.ref(storage)


def alias(t):
    """The same bytes as a tensor of the CPU."""
    storage = t.untyped_storage()
    host = _storage_at(storage.data_ptr(), _cpu, storage.nbytes())
    same = torch.empty(0, dtype=t.dtype, device=_cpu).set_(host, t.storage_offset(), t.size(), t.stride())
    return same.neg() if t.is_neg() else same


def tensors(values):
    """The tensors of an operator's arguments or results."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif type(value) in (list, tuple):
            for part in value:
                if isinstance(part, Tensor):
                    yield part


def on_host(value):
    """An argument as the CPU's kernel takes it."""
    if isinstance(value, Tensor):
        return alias(value) if value.is_cuda and value.numel() else value.new_empty(value.size(), device=_cpu) if value.is_cuda else value
    if type(value) in (list, tuple):
        return [on_host(part) for part in value]
    return _cpu if isinstance(value, torch.device) else value


def compute(op, args, kwargs):
    """What OP gives over the same bytes on the CPU."""
    if op is _histc and not args[0].is_floating_point():  # which the CPU has for floats alone
        return op(on_host(args[0]).double(), *args[1:], **kwargs).to(args[0].dtype)
    return op(*[on_host(value) for value in args], **{name: on_host(value) for name, value in kwargs.items()})


def write(out, result, mark):
    """OUT, a new result of the device, gets the contents RESULT."""
    if out.numel():
        alias(out).copy_(result)
    put(out, mark, True)
