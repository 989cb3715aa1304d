"""arena_pairs.py [ROUNDS [SECONDS]] - builds arena_torch_pairs.cpp against PyTorch's headers, and runs it."""
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
COUNTS = (1, 2, 8, 16)


def built(folder):
    from torch.utils import cpp_extension

    target = os.path.join(folder, "pairs.so")
    cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    library = os.path.join(os.path.dirname(torch.__file__), "lib")
    paths = [f"-I{p}" for p in cpp_extension.include_paths() + [os.path.join(cuda, "include")]]
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-O2", "-fPIC", "-shared", *paths,
               os.path.join(HERE, "arena_torch_pairs.cpp"), "-o", target, f"-L{library}", "-lc10_cuda", "-lc10"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"the loop does not build: {done.stderr[-400:]}")
    cudart = [line.split()[-1] for line in open("/proc/self/maps") if "libcudart.so" in line]
    if cudart:  # which the loop needs, and does not name
        ctypes.CDLL(cudart[0], mode=ctypes.RTLD_GLOBAL)
    loop = ctypes.CDLL(target).arena_torch_round
    loop.restype = ctypes.c_double
    loop.argtypes = (ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p)
    return loop


def measure(loop, threads, rounds, seconds):
    streams = [torch.cuda.Stream() for _ in range(threads)]
    handles = (ctypes.c_void_p * threads)(*[s.cuda_stream for s in streams])
    trial = loop(threads, 200, handles)
    pairs = max(100, min(200000, int(seconds * 1e9 / len(COUNTS) / rounds / 1.25 / trial)))
    ns = sorted(loop(threads, pairs, handles) for _ in range(rounds))
    median = statistics.median(ns)
    print(f"{threads:2} threads  {median:9.1f} ns a pair ({ns[0]:.1f} .. {ns[-1]:.1f})  {threads / median * 1000:7.2f} million pairs a second in all, "
          f"{pairs} pairs a round", flush=True)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 5
    torch.zeros(1, device="cuda")
    with tempfile.TemporaryDirectory() as folder:
        loop = built(folder)
        for threads in COUNTS:
            measure(loop, threads, rounds, seconds)


if __name__ == "__main__":
    main()
