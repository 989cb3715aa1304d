"""frameworks.py cupy | cupy-pool | torch | jax: a few allocations of known size by a framework's own road, and a result."""
import os
import sys

MIB = 1 << 20


def cupy_runtime():
    import cupy

    runtime = cupy.cuda.runtime
    runtime.free(0)
    pointer = runtime.malloc(3 * MIB)
    runtime.memset(pointer, 7, 3 * MIB)
    host = bytearray(16)
    import ctypes
    runtime.memcpy(ctypes.addressof((ctypes.c_char * 16).from_buffer(host)), pointer, 16, runtime.memcpyDeviceToHost)
    runtime.free(pointer)
    print(bytes(host).hex())


def cupy_pool():
    import cupy

    x = cupy.arange(5 * MIB, dtype=cupy.float32)
    print(float(x.sum(dtype=cupy.float64)))


def torch():
    import torch

    x = torch.arange(8 * MIB, dtype=torch.float32, device="cuda") % 1000  # 32 MiB a tensor: a segment each
    print(float(x.double().sum()))


def jax():
    os.environ["XLA_PYTHON_CLIENT_ALLOCATOR"] = "platform"
    import jax.numpy as jnp

    x = jnp.arange(6 * MIB, dtype=jnp.float32) % 1000
    print(float(x[:1000].sum()), x.size)


{"cupy": cupy_runtime, "cupy-pool": cupy_pool, "torch": torch, "jax": jax}[sys.argv[1]]()
