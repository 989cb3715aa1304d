#!/usr/bin/env python3
"""bench_ce_tune.py LIBRARY chunks|proposals|profile... [--shape N,H,V] [--device cpu]: why our times are what they are.

chunks     every chunk size, with as much scratch as cuBLASLt wants and with none; the parts by leaving gradients out
proposals  each of cuBLASLt's first proposals for each of the three products, the others as they are
profile    the kernels of one call, by time
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
PRODUCTS = {"logits": (0, 1), "dX": (4, 3), "dW": (8, 5)}  # its bits in `proposals`, and what is wanted


def race(clock, case, made, rest):
    """Prints a line a method of MADE; all in turn, again and again."""
    gemm, scale = clock.gemm(case.shape)
    rounds = B.Rounds(clock, {B.GEMM: gemm, **made}, scale, rest)
    rounds.run(0, (), least=5)
    for name, values in rounds.times.items():
        row = T.Row(N.shape_name(case.shape), "random", name)
        row.times("burst", values, rounds.shares[name])
        note = made[name].note if name in made else ""
        print(f"{name:32s} {T.spread(row, 'burst'):22s} ms {T.share(row['burst_of_gemm']):>8s} of GEMM  {note}", flush=True)
    for method in made.values():
        method.close()


def attempt(made, name, build):
    try:
        made[name] = build()
    except K.Error as error:
        print(f"{name:32s} {error}")


def chunks(clock, case, rest):
    n, _, v = case.shape
    for chunk in CHUNKS:
        if chunk > n:
            break
        made, tight = {}, chunk * (v + 64) * 2 + (1 << 20)
        attempt(made, f"chunk {chunk}", lambda: M.Ours(case, K.FAST, chunk=chunk))
        attempt(made, f"chunk {chunk}, no scratch", lambda: M.Ours(case, K.FAST, budget=tight, chunk=chunk))
        for part, wants in PARTS.items() if chunk in (512, 1024, 2048) else ():
            attempt(made, f"chunk {chunk}, {part}", lambda: M.Ours(case, K.FAST, chunk=chunk, wants=wants))
        race(clock, case, made, rest)


def proposals(clock, case, rest):
    for product, (place, wants) in PRODUCTS.items():
        made = {}
        for proposal in range(8):
            attempt(made, f"{product}, proposal {proposal}",
                    lambda: M.Ours(case, K.FAST, wants=wants, proposals=proposal << place))
        race(clock, case, made, rest)


def profile(clock, case, rest):
    from torch.profiler import ProfilerActivity, profile as profiler

    for name in ("ours fast", "ours lean"):
        method = M.METHODS[name](case)
        method.results()
        with profiler(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
            method.results()
        print(f"{name}: {method.note}")
        for event in sorted(seen.key_averages(), key=lambda e: -e.device_time_total)[:10]:
            if event.device_time_total:
                print(f"      {event.device_time_total / 1e3:8.3f} ms {event.count:4d} x {event.key[:110]}")
        method.close()


def main():
    parser = argparse.ArgumentParser(prog="bench_ce_tune.py")
    parser.add_argument("library")
    parser.add_argument("what", nargs="+", choices=("chunks", "proposals", "profile"))
    parser.add_argument("--shape", default="8192,4096,128256")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rest", type=float, default=0.1)
    a = parser.parse_args()
    import torch

    if a.device == "cuda":
        torch.zeros(1, device="cuda")
    clock = B.GpuClock() if a.device == "cuda" else B.HostClock()
    library = K.Library(a.library, K.CUDA if a.device == "cuda" else K.CPU)
    case = M.Case(library, *N.make_inputs(N.read_shape(a.shape), "random", a.device))
    for what in a.what:
        print(f"# {what}, {a.shape}: {B.card(a.device)}")
        {"chunks": chunks, "proposals": proposals, "profile": profile}[what](clock, case, a.rest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
