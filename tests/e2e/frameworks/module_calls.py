"""How the library calls modules past the wrapper's code (module_calls.sh), by this interpreter: the folder of the package, and "driver" where layers are not recorded."""
import copy
import functools
import inspect
import os
import pickle
import sys
import sysconfig
import threading
import types

sys.path.insert(0, sys.argv[1])
from vramscope import _calls as calls, _layers as layers


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


class Super(Inner):
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)


class Lazy(Module):
    def forward(self, n):
        for i in range(n):
            yield cell[layers.MODULE], i


class Watch(Module):
    def forward(self, start, stop):
        start()
        try:
            return inner(1)
        finally:
            stop(None)


def fails(error, *args, **kwargs):
    try:
        inner(*args, **kwargs)
    except error:
        return cell[layers.MODULE] == layers.NONE
    return False


call, seen = Module.__call__, []


@functools.wraps(call)
def wrapper(self, *args, **kwargs):
    seen.append(self)
    return call(self, *args, **kwargs)


def ran_wrapper(module, *args):
    """Whether a call of MODULE runs the wrapper's code, and how often."""
    seen.clear()
    module(*args)
    return seen.count(module)


known = sys.version_info[:2] in calls._WATCH_AT and sys.version_info.releaselevel == "final" and not hasattr(sys, "gettotalrefcount")
known = known and not sysconfig.get_config_var("Py_GIL_DISABLED")
if len(sys.argv) > 2:  # layers are not recorded
    assert not layers.are_recorded() and calls.install(wrapper, call) == known
    Module.__call__, cell, inner, head = wrapper, layers.new_cell(), Inner(), Inner()
    cell[layers.INSIDE] = 1
    layers.is_head(head)
    assert ran_wrapper(inner, 1) == 1 and layers.index(inner) == layers.index(head) == layers.UNNAMED
    assert (ran_wrapper(inner, 1), ran_wrapper(head, 1)) == (0 if known else 1, 1)
    sys.exit()
assert layers.are_recorded()
code = wrapper.__code__
assert not calls.install(functools.partial(wrapper), call), "what is no function"
sys.setprofile(lambda *_: None)
assert not calls.install(wrapper, call), "while somebody profiles nothing is changed"
sys.setprofile(None)
assert calls.install(wrapper, call) == known, "refused"
Module.__call__ = wrapper
if not known:

    def many(first):
        for number in range(20000):
            calls.call((first << 32) + 16 * number, 5)

    threads = [threading.Thread(target=many, args=(first,)) for first in range(1, 5)]  # nothing guards a table in a free-threaded build
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("unknown")
    sys.exit()
assert not calls.install(wrapper, call), "a second time"
cell, inner, sup, lazy, watch = layers.new_cell(), Inner(), Super(), Lazy(), Watch()
assert inner(1) == (layers.NONE, 1, 0) and seen == [inner], "where the cell does not allow it the wrapper's code runs"
for number, module in enumerate((inner, sup, lazy, watch)):
    calls.call(id(module), 17 + number)
assert ran_wrapper(inner, 1) == 1
cell[layers.INSIDE] = 1
seen.clear()
for _ in range(100):
    assert inner(1) == (17, 1, 0) and inner(2, k=3) == (17, 2, 3) and inner(x=5) == (17, 5, 0) and inner(*(1,), **{"k": 9}) == (17, 1, 9)
    assert fails(ValueError, None) and fails(TypeError, 1, 2, 3) and fails(TypeError, z=1)
assert inner(1, deep=50) == (17, 1, 0) and fails(RecursionError, 1, deep=100000)
assert not seen and cell[layers.MODULE] == layers.NONE
assert list(lazy(3)) == [(layers.NONE, i) for i in range(3)], "a generator's body runs when the call is over"
assert sup(1)[1:] == (1, 0) and inner.__call__(1)[1:] == (1, 0) and Module.__call__(inner, 1)[1:] == (1, 0)

# it is the function that it was
assert Module.__call__ is wrapper and type(wrapper) is types.FunctionType and inner.__call__.__func__ is wrapper
assert inspect.signature(wrapper) == inspect.signature(call) and inspect.unwrap(wrapper) is call and inspect.isfunction(Module.__call__)
assert type(copy.deepcopy(inner)) is Inner and type(pickle.loads(pickle.dumps(inner))) is Inner
other = Inner()
assert other(1) == (layers.NONE, 1, 0) and ran_wrapper(other, 1) == 1, "an unknown module"
again = types.FunctionType(code, globals(), "again", None, wrapper.__closure__)
assert again(inner, 1)[0] == layers.NONE, "a copy of the function is called as any function"
try:
    wrapper()
    raise AssertionError("a call without a module")
except TypeError:
    pass
before, Module.__call__ = Module.__call__, lambda self, *a: before(self, *a)  # as torch.fx while it traces
assert inner(1)[1:] == (1, 0)
Module.__call__ = before
assert ran_wrapper(inner, 1) == 0

# a profiler or debugger of this thread sees the wrapper's frames, from any moment on, and not those of other threads
names = []
for start, stop in ((sys.setprofile, sys.setprofile), (sys.settrace, sys.settrace)):
    names.clear()
    watch(lambda: start(lambda frame, event, _: names.append(frame.f_code)), stop)
    assert code in names and seen.count(inner) == 1, start
    seen.clear()
    start(lambda *_: None)
    elsewhere = []


    def work():
        own = layers.new_cell()
        own[layers.INSIDE] = 1
        inner(1)
        elsewhere.append(seen.count(inner))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    inner(1)
    stop(None)
    assert elsewhere == [0] and seen.count(inner) == 1, (start, elsewhere, seen)
    assert ran_wrapper(inner, 1) == 0
if hasattr(sys, "monitoring"):
    assert not calls.watched()
    sys.monitoring.use_tool_id(2, "test")
    assert calls.watched()
    sys.monitoring.free_tool_id(2)
assert not calls.watched()

# other code in the wrapper is run
wrapper.__code__ = code.replace(co_name="other")
assert ran_wrapper(inner, 1) == 1
wrapper.__code__ = code
assert ran_wrapper(inner, 1) == 0

# references
objects = (inner, wrapper, call)
counts = [sys.getrefcount(o) for o in objects]
for _ in range(1000):
    inner(1), inner.__call__, Module.__call__, other(1), fails(ValueError, None), sup(1)
seen.clear()
assert [sys.getrefcount(o) for o in objects] == counts, "references"

# more modules than the first table holds, and many that come and go
many = [Inner() for _ in range(1000)]
for number, module in enumerate(many):
    assert calls.call(id(module), 100 + number) == 0
assert all(module(1)[0] == 100 + number for number, module in enumerate(many))
for turn in range(20000):
    assert calls.call(0x10000 + 16 * turn, 5) == 0 and calls.call(0x10000 + 16 * turn, layers.NONE) == 0
assert all(module(1)[0] == 100 + number for number, module in enumerate(many)) and not seen

child = os.fork()
if child == 0:
    os._exit(0 if inner(1) == (17, 1, 0) and not seen else 1)
assert os.waitpid(child, 0)[1] == 0, "a fork child"
try:
    interpreters = __import__("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
except ImportError:
    interpreters = None
if interpreters is not None and hasattr(interpreters, "run_string"):
    number = interpreters.create()
    failed = interpreters.run_string(number, f"import sys; sys.path.insert(0, {sys.argv[1]!r})\ntry:\n from vramscope import _calls\nexcept ImportError:\n pass\n"
                                     "else:\n def f(self): pass\n def g(self): f(self)\n assert not _calls.install(g, f)")
    assert failed is None, failed  # before 3.13 it raises
    interpreters.destroy(number)
    assert inner(1) == (17, 1, 0) and not seen
calls.call(id(inner), layers.NONE)
assert inner(1) == (layers.NONE, 1, 0) and seen == [inner], "what is forgotten runs the wrapper's code"
print("good")
