#!/usr/bin/env python3
"""What cuIpcOpenMemHandle says of another user's handle, and after how long: root and two others, each of each.

    sudo python3 tests/gpu/ipc_users.py                                                         the driver's word
    sudo LD_PRELOAD=.../libvramscope.so VRAMSCOPE_ALLOCATOR=arena python3 tests/gpu/ipc_users.py    the arena's
"""
import ctypes
import os
import time

PAIRS = (0, 0), (0, 65534), (65534, 0), (65534, 65534), (65533, 65534)  # exporter, opener


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


def driver():
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuIpcOpenMemHandle_v2.argtypes = [ctypes.POINTER(ctypes.c_uint64), Handle, ctypes.c_uint]
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    return cuda


def export(pipe, end):
    cuda, address, handle = driver(), ctypes.c_uint64(), Handle()
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(8 << 20)) == 0
    assert cuda.cuIpcGetMemHandle(ctypes.byref(handle), address) == 0
    os.write(pipe, bytes(handle))
    os.read(end, 1)


def open_it(pipe, who):
    cuda, address = driver(), ctypes.c_uint64()
    handle = Handle.from_buffer_copy(os.read(pipe, 64))
    began = time.monotonic()
    status = cuda.cuIpcOpenMemHandle_v2(ctypes.byref(address), handle, 1)
    print(f"uid {who[1]:5} opens uid {who[0]:5}'s: {status} after {1000 * (time.monotonic() - began):.0f} ms", flush=True)


def as_user(uid, what, *arguments):
    pid = os.fork()
    if pid == 0:
        try:
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            what(*arguments)
        finally:
            os._exit(0)
    return pid


for pair in PAIRS:
    told, tell = os.pipe()
    end, finish = os.pipe()
    exporter = as_user(pair[0], export, tell, end)
    os.close(tell)
    os.waitpid(as_user(pair[1], open_it, told, pair), 0)
    os.write(finish, b"x")
    os.waitpid(exporter, 0)
    for fd in told, end, finish:
        os.close(fd)
