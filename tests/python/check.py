"""check.py LIBRARY - the frames that the shim reads, held against the interpreter's own.

In every situation in which Python code can be: generators, coroutines, exceptions in flight, exec, callbacks from C,
tracing, threads, deep recursion, code objects whose addresses come back.  With the GIL held, and released.
"""
import asyncio
import ctypes
import gc
import os
import re
import sys
import threading
import time

held, released = ctypes.PyDLL(sys.argv[1]), ctypes.CDLL(sys.argv[1])
for library in held, released:
    library.probe_start.restype = library.probe_why_off.restype = ctypes.c_char_p
    library.probe_capture.restype = library.probe_capture_all.restype = ctypes.c_uint32
held.probe_inside.restype, held.probe_inside.argtypes = ctypes.py_object, [ctypes.py_object]
file, function = ctypes.create_string_buffer(4096), ctypes.create_string_buffer(4096)
parent, number = ctypes.c_uint32(), ctypes.c_uint32()
bad = good = 0
merged_too = "--no-merge" not in sys.argv
why = held.probe_start().decode()
if why:
    sys.exit("refused: " + why)


def frames(stack):
    """(kind, file, function, line), innermost first."""
    found = []
    while stack:
        kind = held.probe_frame(stack, ctypes.byref(parent), file, function, ctypes.c_size_t(4096), ctypes.byref(number))
        found.append((kind, os.fsdecode(file.value), os.fsdecode(function.value), number.value or None))
        stack = parent.value
    return found


def expected(f):
    found = []
    while f is not None:
        c = f.f_code
        found.append((c.co_filename, getattr(c, "co_qualname", c.co_name), f.f_lineno))
        f = f.f_back
    return found[:256]


def differ(what, got, want):
    global bad
    bad += 1
    print("DIFFER", what, len(got), len(want))
    for i in range(max(len(got), len(want))):
        g, w = got[i] if i < len(got) else None, want[i] if i < len(want) else None
        if g != w:
            print("   ", i, g, w)
            if i > 6:
                break


def check(what):
    global good
    for library in (held, released):
        stack, want = library.probe_capture(), expected(sys._getframe())
        got = [f[1:] for f in frames(stack)]
        if got != want:
            differ(what, got, want)
        else:
            good += 1
        if not merged_too:
            continue
        stack, want = library.probe_capture_all(), expected(sys._getframe())
        mixed = frames(stack)
        got = [f[1:] for f in mixed if f[0] == 2]
        if got != want[:len(got)] or (len(got) != len(want) and len(mixed) < 256):
            differ(what + ", merged", got, want)
        elif not re.fullmatch("1+[12]+1+|1+2+" if len(mixed) < 256 else "1+[12]+", "".join(str(f[0]) for f in mixed)):
            # (a build whose loop is many functions shows nothing of itself: the native frames end where Python begins)
            differ(what + ", merged: natives around", [f[0] for f in mixed], [])
        else:
            good += 1


def recurse(n):
    return check("recursion") if n == 0 else recurse(n - 1)


def through_c(n):
    """As deep as a stack is kept, and between any two frames a call of the interpreter's loop, which is none."""
    return check("recursion through C") if n == 0 else list(map(through_c, [n - 1]))


def generator():
    check("generator")
    yield 1
    check("generator, second")
    yield from inner()


def inner():
    check("inner generator")
    yield 2


async def agen():
    check("asynchronous generator")
    yield 1
    await asyncio.sleep(0)
    check("asynchronous generator, second")
    yield 2


async def coroutine():
    check("coroutine")
    await asyncio.sleep(0)
    check("coroutine after a sleep")
    await asyncio.gather(leaf(), leaf())
    async for _ in agen():
        check("in async for")


async def leaf():
    await asyncio.sleep(0)
    check("task")


class Thing:
    check("class body")

    def __del__(self):
        check("__del__")

    def __lt__(self, other):
        check("__lt__ from C")
        return True

    def __enter__(self):
        check("__enter__")

    def __exit__(self, *args):
        check("__exit__")

    @property
    def value(self):
        check("property")

    def __getattr__(self, key):
        check("__getattr__")
        return 1

    def __call__(self, *args):
        check("__call__")


class Meta(type):
    def __new__(cls, *args):
        check("metaclass")
        return super().__new__(cls, *args)


class Made(metaclass=Meta):
    def __init__(self):
        check("__init__")


def raising():
    try:
        raise ValueError
    except ValueError:
        check("in except")
        try:
            {}["x"]
        except KeyError:
            check("in nested except")
        finally:
            check("in finally")
    try:
        with Thing():
            raise IndexError
    except IndexError:
        check("after with")


def closures():
    a = 1

    def f(b=2, *args, **kw):
        nonlocal a
        check("closure"
              if a else
              "")
        return [check("comprehension") for _ in range(2)], (lambda: check("lambda"))(), {k: check("dict") for k in "a"}
    f(1, 2, x=3)
    f(*[1, 2], **{"x": 3})
    list(x for x in (check("generator expression"),))


def with_thread(work):
    t = threading.Thread(target=work)
    t.start()
    t.join()


def threads_come_and_go():
    """A free-threaded build gives each thread bytecode of its own, and frees it when the thread has ended."""
    ended = threading.Event()
    idle = [threading.Thread(target=ended.wait) for _ in range(9)]
    for i, thread in enumerate(idle):
        thread.start()
        with_thread(lambda: (closures(), recurse(2), list(generator())))
        if i % 3 == 2:
            gc.collect()
    ended.set()
    for thread in idle:
        thread.join()
    with_thread(closures)


def threads_at_once():
    """Threads that capture beside each other, while others come and go, are all at the one line."""
    global good
    stacks, ended = set(), threading.Event()

    def captures():
        stacks.update([released.probe_capture() for _ in range(2000)])

    def others():
        while not ended.is_set():
            with_thread(lambda: [len(str(i)) for i in range(9)])
            gc.collect()

    threads = [threading.Thread(target=captures) for _ in range(8)]
    beside = threading.Thread(target=others)
    for thread in [beside, *threads]:
        thread.start()
    for thread in threads:
        thread.join()
    ended.set()
    beside.join()
    seen = [[f[2] for f in frames(stack)] for stack in stacks]
    if len(seen) == 1 and any("captures" in name for name in seen[0][:2]):
        good += 1
    else:
        differ("threads at once", seen, [])


def décoré():
    check("names that are no ASCII")
    exec(compile("def \U0001d4b3_λ():\n  check('outside the BMP')\n\U0001d4b3_λ()", "/tmp/é\u4e2d\U0001f600.py", "exec"), globals())
    exec(compile("check('a byte that is no UTF-8')", "/tmp/a\udcff.py", "exec"), globals())
    exec(compile("check('Latin 1')", "/tmp/\xe9.py", "exec"), globals())


def long_lines():
    source = ["x = 1" if i % 3 else "" for i in range(3000)]
    source[10] = source[900] = source[2999] = "check('a long module')"
    exec(compile("\n".join(source), "long.py", "exec"), globals())
    exec(compile("def f():\n" + "\n".join("  " + (s or "pass") for s in source) + "\nf()", "longer.py", "exec"), globals())


def address_reuse():
    """What was made under an address that comes back has its own name: the last one is what counts."""
    global bad, good
    for library in (held, released):
        for i in range(400):
            place = {"library": library}
            exec(compile("\n" * (i % 7) + f"def f{i}():\n    return library.probe_capture()\nn = f{i}()", f"made-{i}", "exec"), place)
            got = frames(place["n"])[0][1:]
            want = (f"made-{i}", f"f{i}", i % 7 + 2)
            if got == want:
                good += 1
            else:
                differ("an address that came back", [got], [want])


def line_tables():
    """Every instruction of a good part of the standard library, against co_lines() or, of 3.10, dis."""
    global bad, good
    import glob
    import dis
    decode = held.probe_line_311 if sys.version_info >= (3, 11) else held.probe_line_310
    decode.restype = ctypes.c_uint32
    decode.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_long]
    paths = sorted(glob.glob(os.path.dirname(os.__file__) + "/*.py"))[::4]

    held.probe_code.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]

    def agrees(code):
        """As framework/python/vramscope/_lines.py asks of its own functions."""
        lines = (ctypes.c_uint32 * (len(code.co_code) // 2))()
        for start, end, line in code.co_lines():
            for at in range(start, end, 2):
                lines[at // 2] = line or 0
        return held.probe_code(id(code), os.fsencode(code.co_filename), os.fsencode(getattr(code, "co_qualname", code.co_name)), lines, len(lines)) == 1

    def walk(code):
        global bad, good
        if agrees(code):
            good += 1
        else:
            differ(f"{code.co_filename} {code.co_name} as it is in memory", [held.probe_why_off()], [])
        for start, end, line in code.co_lines():
            for at in range(start, end, 2):
                got = decode(code.co_linetable, len(code.co_linetable), code.co_firstlineno, at // 2) or None
                if got == (line or None):  # a module begins at line 0, before its first
                    good += 1
                else:
                    differ(f"line of {code.co_filename} {code.co_name} at {at}", [got], [line])
        for constant in code.co_consts:
            if hasattr(constant, "co_lines"):
                walk(constant)

    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as f:
                code = compile(f.read(), path, "exec")
        except (OSError, SyntaxError, ValueError):
            continue
        walk(code)


def signals():
    """Captures in a handler that comes at any instruction: no crash, and nothing but this program's own frames."""
    global good
    files = {__file__, ctypes.__file__, os.__file__, threading.__file__}
    held.probe_signals(1)
    total, i, until = 0, 0, time.monotonic() + (10 if "--long" in sys.argv else 0.7)
    while time.monotonic() < until:
        i += 1
        total += sum(x for x in map(lambda y: y + 1, range(5)))
        if i % 100 == 0:
            for f in frames(held.probe_in_handler()):
                if f[1] not in files and not f[1].startswith("<frozen"):
                    differ("in a signal handler", [f], [])
    held.probe_signals(0)
    print(f"   {held.probe_handled()} captures in a signal handler")
    good += 1


def greenlets():
    """Stacks that are switched under the interpreter, where the package is installed."""
    try:
        import greenlet
    except ImportError:
        return

    def first():
        for _ in range(3):
            check("greenlet")
            other.switch()

    def second(n=4):
        while True:
            recurse(n)
            one.switch()

    one, other = greenlet.greenlet(first), greenlet.greenlet(second)
    one.switch()
    check("after greenlets")

    # calls that are left in another order than they were entered
    def enters(name, to):
        for i in range(3):
            held.probe_inside(lambda: (check("open call of " + name), to().switch(), check("open call of " + name + ", later")))
            check("behind it")
            to().switch()
            later = lambda: check("a later open call of " + name)  # noqa: E731
            held.probe_inside(later)
            held.probe_inside(later)

    left = greenlet.greenlet(lambda: enters("one", lambda: right))
    right = greenlet.greenlet(lambda: enters("the other", lambda: left))
    left.switch()
    check("after open calls of greenlets")
    print("   greenlets")


def fails():
    try:
        held.probe_inside(lambda: 1 // 0)
    except ZeroDivisionError:
        check("behind a call that raised")


def nested(n):
    """Open calls in each other, each with two captures before, between and behind inner ones, from several lines."""
    check("open call")
    check("open call, again")
    if n:
        held.probe_inside(lambda: nested(n - 1))
        check("between inner calls")
        held.probe_inside(lambda: check("another line's inner call"))
    fails()


def twice(f):
    f()
    return f()


def open_calls():
    """What lies outside of a call that goes through C is walked over once, and found right after that."""
    global good
    checks = (raising, closures, lambda: list(generator()), lambda: asyncio.run(coroutine()), lambda: with_thread(lambda: nested(2)), lambda: recurse(40))
    before = held.probe_outside()
    for work in checks:
        held.probe_inside(lambda: twice(work))
        twice(lambda: held.probe_inside(work))
    for n in 0, 1, 5:
        held.probe_inside(lambda: nested(n))
        nested(n)
    level = 40  # more than are kept

    def down(n):
        check("many open calls")
        if n:
            held.probe_inside(lambda: down(n - 1))
        check("many open calls, on the way back")

    down(level)
    known = held.probe_inside(lambda: (check("open"), held.probe_outside())[1])
    if before == 0 and known > 1:
        good += 1
    else:
        differ("frames that are known", [known], [before])


def deep_open_calls(n=300):
    """A stack that is cut off, its outer part known or not."""
    if n:
        return held.probe_inside(lambda: deep_open_calls(n - 1)) if n % 60 == 0 else deep_open_calls(n - 1)
    global good
    for library in (held, released):
        stack, want = library.probe_capture(), expected(sys._getframe())
        got = [f[1:] for f in frames(stack)]
        if got == want[:len(got)] and len(got) > min(len(want) - 1, 240):  # 3.12 counts frames that are none of Python code
            good += 1
        else:
            differ("300 deep in open calls", got, want)


def questions():
    """The kernel is asked seldom whether memory can be read, also where captures come from the code of many pages."""
    global good
    places = []
    for i in range(40):
        place = {"library": held, "_": [" " * 64 for _ in range(200)]}
        exec(compile("def f():\n    return library.probe_capture()", f"page-{i}", "exec"), place)
        places.append(place)
    before = held.probe_questions()
    for _ in range(50):
        for place in places:
            place["f"]()
    asked = held.probe_questions() - before
    if asked <= 400:
        good += 1
    else:
        differ(f"2000 captures, {asked} questions to the kernel", [], [])


def stale():
    """3.11 and 3.12: of what a signal may find in the midst of a call only frames that live are followed."""
    global good
    if sys.version_info[:2] not in ((3, 11), (3, 12)):
        return
    held.probe_capture()
    wrong = held.probe_stale()
    if not wrong:
        good += 1
    wrongs = {1: "a frame that was left is followed", 2: "a frame whose memory is gone is followed", 4: "a frame elsewhere is not"}
    for bit, what in wrongs.items():
        if wrong & bit:
            differ(what, [], [])


def no_frames():
    """A thread that the interpreter does not know has none."""
    global good
    libc = ctypes.CDLL(None)
    thread, result = ctypes.c_ulong(), ctypes.c_void_p(7)
    entry = ctypes.cast(released.probe_capture, ctypes.c_void_p)
    assert released.pthread_create(ctypes.byref(thread), None, entry, None) == 0 if hasattr(released, "pthread_create") else \
        libc.pthread_create(ctypes.byref(thread), None, entry, None) == 0
    libc.pthread_join(thread, ctypes.byref(result))
    if (result.value or 0) & 0xffffffff:
        differ("a thread without Python", frames(result.value), [])
    else:
        good += 1


def sub_interpreter():
    """3.10 to 3.12: nothing while there is one; later: its own frames."""
    global good
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            sub = __import__(name)
        except ImportError:
            continue
        try:
            i = sub.create() if name == "_xxsubinterpreters" else sub.create("legacy")
        except Exception as problem:
            print("   no sub-interpreter:", problem)
            return
        if sys.version_info < (3, 13):
            if released.probe_capture() or held.probe_capture():
                differ("beside a sub-interpreter", ["frames"], [])
            else:
                good += 1
        code = ("import ctypes\nl = ctypes.PyDLL(" + repr(sys.argv[1]) + ")\nl.probe_capture.restype = ctypes.c_uint32\n"
                "def inside():\n  return l.probe_capture()\nn = inside()\nopen(" + repr(f"/tmp/probe-sub-{os.getpid()}") + ", 'w').write(str(n))")
        try:
            problem = sub.run_string(i, code) if hasattr(sub, "run_string") and name == "_xxsubinterpreters" else sub.exec(i, code)
            with open(f"/tmp/probe-sub-{os.getpid()}") as f:
                inside = frames(int(f.read()))
            os.unlink(f"/tmp/probe-sub-{os.getpid()}")
            want = [] if sys.version_info < (3, 13) else ["inside", "<module>"]
            if [f[2] for f in inside] == want:
                good += 1
            else:
                differ("in a sub-interpreter", inside, want)
        except (OSError, ImportError, RuntimeError) as problem:
            print("   sub-interpreter:", type(problem).__name__, problem)
        sub.destroy(i)
        return


recurse(0)
recurse(20)
recurse(120)
through_c(200)
list(generator())
asyncio.run(coroutine())
t = Thing()
sorted([t, t])
t.value
t.other
t()
del t
Made()
raising()
closures()
with_thread(lambda: recurse(3))
threads_come_and_go()
threads_at_once()
exec("\n\ncheck('exec')\ndef g():\n  check('function of exec')\ng()", globals())
eval("check('eval')")
list(map(lambda x: check("map"), [1]))
re.sub("a", lambda m: check("re.sub") or "", "a")
décoré()
long_lines()
sys.settrace(lambda *a: None)
check("settrace")
recurse(2)
sys.settrace(None)


def tracer(f, e, a):
    return tracer


sys.settrace(tracer)
recurse(2)
closures()
sys.settrace(None)
sys.setprofile(lambda *a: None)
recurse(2)
sys.setprofile(None)
if hasattr(sys, "monitoring"):
    m = sys.monitoring
    m.use_tool_id(3, "t")
    m.register_callback(3, m.events.LINE, lambda *a: None)
    m.register_callback(3, m.events.INSTRUCTION, lambda *a: None)
    m.set_events(3, m.events.LINE | m.events.INSTRUCTION)
    recurse(3)
    closures()
    list(generator())
    m.set_events(3, 0)
    m.free_tool_id(3)
for i in range(300):  # past every threshold of specialising, and of a JIT's
    if i % 100 == 0:
        recurse(5)
    else:
        held.probe_capture()
sys.setrecursionlimit(6000)


def deep(n):
    if n:
        return deep(n - 1)
    merged_before = merged_too
    globals()["merged_too"] = False
    check("2000 deep")
    globals()["merged_too"] = merged_before


deep(2000)
open_calls()
deep_open_calls()
deep_open_calls(220)
address_reuse()
line_tables()
greenlets()
questions()
stale()
no_frames()
signals()
sub_interpreter()
recurse(1)
if sys.version_info < (3, 15) and not held.probe_direct():
    differ("the words of _PyRuntime", ["are not used"], [])
detail = ctypes.c_char_p()
for name in "py_frame", "py_code", "py_lines", "py_standstill":
    if held.probe_contract(name.encode(), ctypes.byref(detail)) != (name != "py_code" or sys.version_info >= (3, 12)):
        differ("contract " + name, [detail.value], [])
print(f"{sys.version.split()[0]}: {good} agree, {bad} differ")
sys.exit(bad != 0)
