"""children.py HOW: reaches the driver through ctypes, in itself (ctypes) or in its children: fork, spawn, forkserver, subprocess;
cleared, replaced, refused: their launcher removes LD_PRELOAD, or puts another library there.
"""
import ctypes
import multiprocessing
import os
import subprocess
import sys


def use_gpu(size):
    cuda = ctypes.CDLL("libcuda.so.1")
    context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
    calls = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
             cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)), cuda.cuMemFree_v2(pointer)]
    print(size, calls, flush=True)
    return calls


def by_multiprocessing(how):
    context = multiprocessing.get_context(how)
    for size in (1000, 2000):
        child = context.Process(target=use_gpu, args=(size,))
        child.start()
        child.join()
        print("child", child.exitcode, flush=True)


def by_subprocess(changes, arguments=()):
    environment = {name: value for name, value in dict(os.environ, **changes).items() if value is not None}
    worker = [sys.executable, "-u", *arguments, os.path.abspath(__file__), "worker", "a b", "", "--x=ü"]
    result = subprocess.run(worker, env=environment, stdin=subprocess.DEVNULL)
    print("child", result.returncode, flush=True)


def main():
    how = sys.argv[1]
    if how == "ctypes":
        use_gpu(3000)
    elif how == "worker":
        print(sys.argv[1:], sys.flags.dont_write_bytecode, sys.flags.optimize, sys.stdin.read(), flush=True)
        use_gpu(4000)
        sys.exit(7)
    elif how == "subprocess":
        by_subprocess({})
    elif how == "cleared":
        by_subprocess({"LD_PRELOAD": None}, ["-B", "-OO"])
    elif how == "replaced":
        by_subprocess({"LD_PRELOAD": "libm.so.6"})
    elif how == "refused":
        by_subprocess({"LD_PRELOAD": None, "VRAMSCOPE_REEXEC": "off"})
    else:
        by_multiprocessing(how)


if __name__ == "__main__":
    main()
