#!/usr/bin/env python3
"""bench_ce_chunks.py LIBRARY [--shape N,H,V] [--slabs] [--device cpu]: what the size of a chunk costs, and where the
time goes.

Every chunk size in turn; the products' parts by leaving gradients out.  With --slabs instead blocks of tokens by slabs
of classes.  Rounds, clock and the share of the GEMM rate are those of bench_ce.py.
"""
import argparse
import sys

import bench_ce as B
import bench_ce_methods as M
import bench_ce_numbers as N
import bench_ce_table as T
import kernels_lce as K

CHUNKS = 256, 384, 512, 768, 1024, 1280, 1536, 1792, 2048, 3072, 4096
PARTS = {"loss": 1, "loss and dX": 3, "loss and dW": 5}
PARTED = 512, 1024, 2048
SLABS = [(tokens, classes) for tokens in (128, 512, 1024, 2048) for classes in (2048, 4096, 8192, 16384, 65536)]


def race(clock, case, made, rest):
    """Prints a line a method of MADE; all in turn, again and again."""
    gemm, scale = clock.gemm(case.shape)
    rounds = B.Rounds(clock, {B.GEMM: gemm, **made}, scale, rest)
    rounds.run(0, (), least=5)
    for name, values in rounds.times.items():
        row = T.Row(N.shape_name(case.shape), "random", name)
        row.times("burst", values, rounds.shares[name])
        note = made[name].note if name in made else ""
        print(f"{name:24s} {T.spread(row, 'burst'):22s} ms {T.share(row['burst_of_gemm']):>8s} of GEMM  {note}", flush=True)
    for method in made.values():
        method.close()


def attempt(made, name, case, **values):
    try:
        made[name] = M.Ours(case, K.FAST, **values)
    except K.Error as error:
        print(f"{name:24s} {error}")


def slabs(clock, case, rest):
    n, h, v = case.shape
    for tokens, classes in [pair for pair in SLABS if pair[0] <= n and pair[1] < v]:
        made = {}
        attempt(made, f"{tokens} x {classes}", case, chunk=tokens, slab=classes)
        for part, wants in PARTS.items() if classes == 8192 else ():
            attempt(made, f"{tokens} x {classes}, {part}", case, chunk=tokens, slab=classes, wants=wants)
        race(clock, case, made, rest)


def main():
    parser = argparse.ArgumentParser(prog="bench_ce_chunks.py")
    parser.add_argument("library")
    parser.add_argument("--shape", default="8192,4096,128256")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rest", type=float, default=0.1)
    parser.add_argument("--slabs", action="store_true")
    a = parser.parse_args()
    clock = B.GpuClock() if a.device == "cuda" else B.HostClock()
    library = K.Library(a.library, K.CUDA if a.device == "cuda" else K.CPU)
    shape = N.read_shape(a.shape)
    case = M.Case(library, *N.make_inputs(shape, "random", a.device))
    print(f"# {a.shape}: {B.card(a.device)}")
    if a.slabs:
        slabs(clock, case, a.rest)
    for chunk in [chunk for chunk in CHUNKS if chunk <= shape[0] and not a.slabs]:
        made = {}
        attempt(made, f"chunk {chunk}", case, chunk=chunk)
        for part, wants in PARTS.items() if chunk in PARTED else ():
            attempt(made, f"chunk {chunk}, {part}", case, chunk=chunk, wants=wants)
        race(clock, case, made, a.rest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
