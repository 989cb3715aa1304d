"""What stands in front of nn.Module.__call__ (module_calls.sh), on a class that calls as torch's does: results, keywords, exceptions,
recursion, what the attribute is, references."""
import sys

sys.path.insert(0, sys.argv[1])
from vramscope import _layers as layers  # noqa: E402


class Module:
    def _impl(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def __call__(self, *args, **kwargs):
        return self._impl(*args, **kwargs)


class Inner(Module):
    def forward(self, x, *, k=0, deep=0):
        if x is None:
            raise ValueError
        return self(x, k=k, deep=deep - 1) if deep else (cell[layers.MODULE], x, k)


def fails(error, *args, **kwargs):
    try:
        inner(*args, **kwargs)
    except error:
        return cell[layers.MODULE] == layers.NONE
    return False


call, seen = Module.__call__, []


def wrapper(self, *args, **kwargs):
    seen.append(self)
    return call(self, *args, **kwargs)


assert layers.are_recorded()
Module.__call__ = front = layers.in_front(call, wrapper)
assert front is not wrapper, "refused"
cell, inner = layers.new_cell(), Inner()
assert inner(1) == (layers.NONE, 1, 0) and seen == [inner], "an outermost call goes through the wrapper"
layers._direct(id(inner), 17)
cell[layers.INSIDE] = 1
seen.clear()
for _ in range(100):
    assert inner(1) == (17, 1, 0) and inner(2, k=3) == (17, 2, 3) and inner(x=5) == (17, 5, 0) and inner(*(1,), **{"k": 9}) == (17, 1, 9)
    assert fails(ValueError, None) and fails(TypeError, 1, 2, 3) and fails(TypeError, z=1)
assert inner(1, deep=50) == (17, 1, 0) and fails(RecursionError, 1, deep=100000)
assert not seen and cell[layers.MODULE] == layers.NONE

assert Module.__call__ is wrapper and getattr(inner, "__call__").__func__ is wrapper and getattr(inner, "__call__").__self__ is inner
other = Inner()
assert other(1) == (layers.NONE, 1, 0) and seen == [other], "an unknown module goes through the wrapper"
objects = (inner, wrapper, call, front)
before = [sys.getrefcount(o) for o in objects]
for _ in range(1000):
    inner(1), getattr(inner, "__call__"), Module.__call__, other(1), fails(ValueError, None)
seen.clear()
assert [sys.getrefcount(o) for o in objects] == before, "references"
layers._direct(id(inner), layers.NONE)
assert inner(1) == (layers.NONE, 1, 0) and seen == [inner], "what is forgotten goes through the wrapper"
