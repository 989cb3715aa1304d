"""_dry_reads - operators whose results a program, or the size of a result, reads on the host.

Each is called in the place of one CUDA kernel, with its operator O (_dry_wrap) and what calls it.  The kernel's host code runs and takes its memory.  Where it reads a result from
the device it gets the value that is followed, and else one of _dry_rules.
"""

import atexit
import ctypes
import math
import sys

import torch

from . import _dry_facts as facts
from . import _dry_rules as rules
from ._dry_places import inside, read, where
from ._dry_values import ASSUMED, KNOWN, TRUE, NoFunctions, alias, compute, forget, is_capturing, is_small, mark_of, put, write


class reading:
    """Within it, what operators read is not the program's; unknown numbers are ANSWER, where there is one."""

    def __init__(self, answer=None, count=None):
        self.now = answer, count

    def __enter__(self):
        self.before = inside.answer, inside.count
        inside.depth += 1
        inside.answer, inside.count = self.now

    def __exit__(self, *_):
        inside.depth -= 1
        inside.answer, inside.count = self.before


def _was_read(to, size):
    """A library read a number from the device: that of the operator around it, which knows, or one that nobody knows."""
    if inside.count is not None:
        ctypes.memmove(to, inside.count.to_bytes(8, sys.byteorder), size)  # whole numbers, not negative
    elif not inside.depth:
        facts.value(where()[0], "a number that a library reads from the device by itself", facts.UNKNOWN)


_reader = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(_was_read)


def install():
    on_read = ctypes.CDLL(None).simcuda_on_read
    on_read(_reader)
    atexit.register(on_read, None)


def _known(t):
    """T's mark; a mask of which nothing is known gets contents by rule.  None: nothing is known."""
    if not is_small(t):
        return None
    if t.numel() == 0:
        return KNOWN
    return mark_of(t) or (rules.mask(t) if t.dtype is torch.bool and not is_capturing() else None)


# ---- single values, and copies ----


def item(o, call, keys, t):
    with reading():
        call(keys, t)
    with NoFunctions():
        mark = mark_of(t)
        if mark is not None:
            value, said = alias(t).item(), mark[1]
        elif inside.answer is not None:
            return inside.answer
        else:
            value, said = rules.scalar(t.dtype)
        if mark is None or mark[0] != TRUE:
            times = read("the value", t, said)
            if type(value) is bool and times % rules.PATIENCE == rules.PATIENCE - 1 and (mark is None or mark[0] == ASSUMED):
                return not value
            if mark is None:
                value = rules.read_again(value, times)
        return value


def _to_host(t, source):
    """A copy from the device, which the program can look at."""
    if not is_small(source) or not t.numel():
        return
    mark = mark_of(source)
    if mark is not None:
        t.copy_(alias(source))
        said = mark[1]
    else:
        said = rules.fill(t)
    if mark is None or mark[0] != TRUE:
        read("a copy on the host", source, said)


def _to_device(t, source):
    if source.is_cuda:
        mark = mark_of(source)
        if mark is None:
            return forget(t)
    else:
        mark = KNOWN
    if is_small(t) and is_small(source):
        if t.numel():
            alias(t).copy_(alias(source) if source.is_cuda else source)
        put(t, mark)
    else:
        forget(t)


def copy(o, call, keys, t, source, non_blocking=False):
    with reading():
        out = call(keys, t, source, non_blocking)
    if t.is_cuda and source.is_cuda and mark_of(source) is None:  # as nearly always
        forget(t)
        return out
    with NoFunctions():
        try:
            (_to_device if t.is_cuda else _to_host)(t, source)
        except Exception:
            if t.is_cuda:
                forget(t)
    return out


# ---- sizes that contents decide ----


def poke(t, count):
    """The block of the allocator that the kernel will count T's elements in holds COUNT, as if it had.

    The allocator gives the same blocks again for the same requests: a contiguous copy, where T is none, and the smallest block.
    """
    copy = None if t.is_contiguous() else torch.empty(t.size(), dtype=t.dtype, device=t.device)
    block = torch.empty(1, dtype=torch.int64, device=t.device)
    alias(block).fill_(count)
    del block, copy


def _count(t):
    """(how many elements of T are not 0, mark or None, whether contents are there)."""
    base, times = t, 1
    for dim in range(t.dim()):
        if t.stride(dim) == 0 and t.size(dim) > 1:  # expanded
            times *= t.size(dim)
            base = base.narrow(dim, 0, 1)
    mark = _known(base)
    if mark is None:
        return rules.share_of(t.numel()), None, False
    return (alias(base).count_nonzero().item() * times if t.numel() else 0), mark, is_small(t)


def nonzero(o, call, keys, t):
    if is_capturing():
        return call(keys, t)
    with NoFunctions():
        count, mark, has_contents = _count(t)
        poke(t, count)
    try:
        with reading():
            out = call(keys, t)
    except RuntimeError:  # it counted elsewhere, and what it read is no count; where there is no memory the next line says so
        out = None
    with NoFunctions():
        if out is None or out.size(0) != count:
            out = torch.empty((t.dim(), count), dtype=torch.int64, device=t.device).t()
        if has_contents and is_small(out):
            write(out, alias(t).nonzero(), mark)
        if mark is None or mark[0] != TRUE:
            read("the number of elements that are not 0", t, mark[1] if mark else rules.kept())
    return out


def _sized(out, sizes):
    """The results OUT of a kernel, those of other SIZES than it would have on a GPU made anew."""
    return tuple(t if t.size() == size else torch.empty(size, dtype=t.dtype, device=t.device) for t, size in zip(out, sizes))


def _computed(out, result, mark):
    """OUT, a kernel's results, with the contents of RESULT."""
    out = _sized(out, [part.size() for part in result])
    for part, host in zip(out, result):
        write(part, host, mark)
    return out


def unique(o, call, keys, t, *args, **kwargs):
    with NoFunctions():
        mark = _known(t)
        result = compute(o.op, (t, *args), kwargs) if mark else None
        count, said = (result[0].numel(), mark[1]) if mark else rules.distinct(t.numel())
    with reading(count):
        out = call(keys, t, *args, **kwargs)
    with NoFunctions():
        if result:
            out = _computed(out, result, mark)
        else:
            out = _sized(out, [torch.Size([count])] + [part.size() if i == 1 else torch.Size([min(count, part.numel())]) for i, part in enumerate(out[1:], 1)])
        if mark is None or mark[0] != TRUE:
            read("how many values differ", t, said)
    return out


def unique_rows(o, call, keys, t, *args, **kwargs):
    """Of rows, or runs, of which nothing is known: all of them."""
    with NoFunctions():
        mark = _known(t)
        result = compute(o.op, (t, *args), kwargs) if mark else None
    with reading():
        out = call(keys, t, *args, **kwargs)
    with NoFunctions():
        if result:
            out = _computed(out, result, mark)
        elif mark is None:
            out = (out[0] if out[0].numel() else torch.empty_like(t), *out[1:])
            read("how many values differ", t, "all differ")
    return out


def coalesce(o, call, keys, t):
    """The entries of a sparse tensor that have the same indices become one."""
    with NoFunctions():
        indices = t._indices()
        mark = _known(indices)
        if mark:
            host = alias(indices)
            host = (host[0] if host.size(0) == 1 else host).unique(dim=-1).view(host.size(0), -1)
            count, said = host.size(-1), mark[1]
        else:
            most = min(indices.size(1), math.prod(t.size()[: indices.size(0)]))
            count, said = rules.distinct(most)
    with reading(count=count):
        out = call(keys, t)
    with NoFunctions():
        if mark:
            write(out._indices(), host, mark)
        if mark is None or mark[0] != TRUE:
            read("how many indices differ", indices, said)
    return out


def equal(o, call, keys, t, other):
    with reading(1):
        value = call(keys, t, other)
    if t.size() != other.size() or not t.numel():
        return value
    with NoFunctions():
        marks = _known(t), _known(other) if other.is_cuda else KNOWN
        if None not in marks:
            mark = max(marks)
            value = bool(compute(o.op, (t, other), {}))
        else:
            mark, value = (ASSUMED, ""), rules.BOOLEAN
        if mark[0] != TRUE:
            read("whether it equals another", t, str(value).lower())
    return value


def counting(follow, o, call, keys, *args, **kwargs):
    """Operators that read their input's extremes, or its sum, for the size of their result."""
    with reading():
        out = call(keys, *args, **kwargs)
    with NoFunctions():
        mark = follow(o, out, args, kwargs)
        t = args[0]
        if mark is None or mark[0] != TRUE:
            read(f"the size of {o.name}", t, mark[1] if mark else f"{out.numel()} elements")
    return out


WRAPPERS = {
    "_coalesce": coalesce,
    "_local_scalar_dense": item,
    "copy_": copy,
    "nonzero": nonzero,
    "_unique2": unique,
    "_unique": unique,
    "unique_dim": unique_rows,
    "unique_dim_consecutive": unique_rows,
    "unique_consecutive": unique_rows,
    "equal": equal,
}
