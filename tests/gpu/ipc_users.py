#!/usr/bin/env python3
"""Root and two other users open each other's memory by its handle, and read and write its words. 77 where it is not root's.

    sudo python3 tests/gpu/ipc_users.py                                                         the driver's own
    sudo LD_PRELOAD=.../libvramscope.so VRAMSCOPE_ALLOCATOR=arena python3 tests/gpu/ipc_users.py    the arena's
"""
import ctypes
import os
import sys
import time

PAIRS = (0, 0), (0, 65534), (65534, 0), (65534, 65534), (65533, 65534)  # exporter, opener
WORDS, PUT, PUT_BACK = 2 << 20, 0x600DF00D, 0x0DDBA115


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


def driver():
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuIpcOpenMemHandle_v2.argtypes = [ctypes.POINTER(ctypes.c_uint64), Handle, ctypes.c_uint]
    cuda.cuIpcCloseMemHandle.argtypes = [ctypes.c_uint64]
    cuda.cuMemsetD32_v2.argtypes = [ctypes.c_uint64, ctypes.c_uint, ctypes.c_size_t]
    cuda.cuMemcpyDtoH_v2.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t]
    context = ctypes.c_void_p()
    done(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context))
    return cuda


def done(*statuses):
    if any(statuses):
        raise RuntimeError(f"the driver's statuses: {statuses}")


def all_are(cuda, word, address):
    words = (ctypes.c_uint * WORDS)()
    done(cuda.cuMemcpyDtoH_v2(words, address, 4 * WORDS))
    return bytes(words) == word.to_bytes(4, "little") * WORDS


def export(pipe, end, pair):
    cuda, address, handle = driver(), ctypes.c_uint64(), Handle()
    done(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4 * WORDS)))
    done(cuda.cuMemsetD32_v2(address, PUT, WORDS), cuda.cuCtxSynchronize())
    done(cuda.cuIpcGetMemHandle(ctypes.byref(handle), address))
    os.write(pipe, bytes(handle))
    return os.read(end, 1) == b"w" and all_are(cuda, PUT_BACK, address)


def open_it(pipe, pair):
    cuda, address = driver(), ctypes.c_uint64()
    told = os.read(pipe, 64)
    if len(told) != 64:
        return False
    began = time.monotonic()
    status = cuda.cuIpcOpenMemHandle_v2(ctypes.byref(address), Handle.from_buffer_copy(told), 1)
    ms = 1000 * (time.monotonic() - began)
    right = status == 0 and all_are(cuda, PUT, address)
    print(f"uid {pair[1]:5} opens uid {pair[0]:5}'s: {status} after {ms:.0f} ms, words {'right' if right else 'not seen'}", flush=True)
    if status == 0:
        done(cuda.cuMemsetD32_v2(address, PUT_BACK, WORDS), cuda.cuCtxSynchronize(), cuda.cuIpcCloseMemHandle(address))
    return right


def as_user(uid, what, *arguments):
    pid = os.fork()
    if pid == 0:
        right = False
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            right = what(*arguments)
        except Exception as error:  # told, and counted as wrong
            print(f"uid {uid}: {what.__name__}: {error}", flush=True)
        finally:
            os._exit(0 if right else 1)
    return pid


def is_right(pid):
    return os.waitpid(pid, 0)[1] == 0


def shared(pair):
    told, tell = os.pipe()
    end, finish = os.pipe()
    exporter = as_user(pair[0], export, tell, end, pair)
    os.close(tell)
    opened = is_right(as_user(pair[1], open_it, told, pair))
    os.write(finish, b"w" if opened else b"x")
    kept = is_right(exporter)
    for fd in told, end, finish:
        os.close(fd)
    if opened and not kept:
        print(f"uid {pair[0]:5} does not see uid {pair[1]:5}'s words", flush=True)
    return opened and kept


def main():
    if os.geteuid() != 0:
        print("not root: nobody else can be other users")
        return 77
    wrong = [pair for pair in PAIRS if not shared(pair)]
    print(f"{len(PAIRS) - len(wrong)} of {len(PAIRS)} pairs share memory")
    return 1 if wrong else 0


sys.exit(main())
