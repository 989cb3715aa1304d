"""frames_program.py - allocates from all kinds of Python code, and prints for each the line that asked, as the interpreter has it."""
import asyncio
import ctypes
import functools
import sys
import threading

report = getattr(ctypes.CDLL(None), "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", lambda *a: None)
cuda = ctypes.CDLL("libcuda.so.1")


def reporting(size, total):
    return functools.partial(report, ctypes.c_void_p(0x7f0000000200), ctypes.c_int64(size), ctypes.c_size_t(total),
                             ctypes.c_size_t(1 << 21), ctypes.c_uint16(1))


# No Python code runs in these, so the line that asks is the one that calls them.
block, free = reporting(512, 512), reporting(-512, 0)
driver = functools.partial(cuda.cuMemAlloc_v2, ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(1 << 20))
here = sys._getframe


def say(f, *results):
    assert not any(results)
    c = f.f_code
    print(f"{c.co_filename}:{f.f_lineno} {getattr(c, 'co_qualname', c.co_name)}", flush=True)
    if not results:
        free()


def recurse(n):
    if n:
        return recurse(n - 1)
    block(), say(here())
    say(here(), driver())


def generator():
    block(), say(here())
    yield 1
    say(here(), driver())


async def coroutine():
    await asyncio.sleep(0)
    block(), say(here())


class Model:
    def forward(self):
        block(), say(here())
        return [(block(), say(here())) for _ in range(2)]


class Key:
    def __lt__(self, other):
        block(), say(here())
        say(here(), driver())
        return True


def thread(context):
    assert cuda.cuCtxSetCurrent(context) == 0
    recurse(3)


def main():
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    block(), say(here())
    say(here(), driver())
    recurse(30)
    list(generator())
    asyncio.run(coroutine())
    Model().forward()
    sorted([Key(), Key()])
    exec(compile("\n\nblock(), say(here())", "<made>", "exec"), globals())
    try:
        raise ValueError
    except ValueError:
        block(), say(here())
    for i in range(50):  # code objects whose addresses come back
        exec(compile(f"def f{i}():\n    block(), say(here())\nf{i}()", f"/made/{i}.py", "exec"), globals())
    t = threading.Thread(target=thread, args=(context,))
    t.start()
    t.join()


main()
