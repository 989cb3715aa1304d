#!/usr/bin/env python3
"""limit.py WAY LIMIT_GIB - takes device memory by a framework until it is refused, under `vramscope run --limit`.

WAY: torch, jax or cupy.  "ok" if what NVML's list of processes has for this process is at most the limit, and the next piece would have passed it;
and if what the framework, the driver and NVML call the device's total is the limit.
"""
import os
import sys

PIECE = 200 << 20


def by_torch():
    import torch
    held, x = [], torch.randn(4096, 4096, device="cuda", requires_grad=True)
    (x @ x).sum().backward()  # code and cuBLAS's workspace count
    try:
        while True:
            held.append(torch.empty(PIECE, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        pass
    totals = {torch.cuda.get_device_properties(0).total_memory, torch.cuda.mem_get_info()[1]}
    return held, totals


def by_jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "1.0")
    import jax
    import jax.numpy as jnp
    held = []
    try:
        while True:
            held.append(jnp.zeros(PIECE, dtype=jnp.uint8))
            held[-1].block_until_ready()
    except Exception as error:  # jaxlib's own class
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
    return held, set()


def by_cupy():
    import cupy
    held = []
    try:
        while True:
            held.append(cupy.zeros(PIECE, dtype=cupy.uint8))
    except cupy.cuda.memory.OutOfMemoryError:
        pass
    return held, {cupy.cuda.Device(0).mem_info[1], cupy.cuda.runtime.getDeviceProperties(0)["totalGlobalMem"]}


def main():
    way, limit = sys.argv[1], int(float(sys.argv[2]) * (1 << 30))
    held, totals = {"torch": by_torch, "jax": by_jax, "cupy": by_cupy}[way]()
    import pynvml
    pynvml.nvmlInit()
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    used = sum(p.usedGpuMemory for p in pynvml.nvmlDeviceGetComputeRunningProcesses(device) if p.pid == os.getpid())
    totals |= {pynvml.nvmlDeviceGetMemoryInfo(device).total, pynvml.nvmlDeviceGetMemoryInfo(device, version=pynvml.nvmlMemory_v2).total}
    good = used <= limit and used + (2 * PIECE if way != "jax" else limit // 3) > limit and totals == {limit}
    print(f"{'ok' if good else 'FAIL'} {way}: {len(held)} pieces, {used / 2**20:.1f} of {limit / 2**20:.1f} MiB, totals {sorted(totals)}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
