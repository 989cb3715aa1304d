#!/usr/bin/env python3
"""bench_ce_sweep.py LIBRARY OUT.tsv [--seconds S] [--rounds R] [--device cpu] [TOKENS,HIDDEN,VOCABULARY]...: products of ours beside
cuBLASLt's, at shapes with the vocabularies of real tokenizers - what the plan's estimates (kernels/cuda/whose.c) are held to.

bf16, all tokens counting, loss (mean) and both gradients; dweight in bf16, and in fp32 added to (main_grad).  The ways
of a shape are forced (all three products ours; that of the logits ours, beside cuBLASLt's two others; all three
cuBLASLt's), and taken by turns beside the default; medians of milliseconds after a rest, a row a way as in
tests/data/cross_entropy_sweep.tsv.  OUT.tsv.kernels gets, in JSON, a line a way: its kernels in their order with
microseconds, of one run more under the profiler.
"""
import argparse
import json
import random
import statistics
import sys
import time

import bench_ce as B
import bench_ce_methods as M
import bench_ce_numbers as N
import kernels_lce as K

OURS, CUBLASLT = 1 << 14, 1 << 13  # in proposals
WAYS = {"default": 0, "ours": OURS, "beside": OURS | CUBLASLT, "cuBLASLt": CUBLASLT}
SHAPES = """2048,2048,32000 4096,4096,32000 8192,768,32000 1024,8192,32000 700,3072,32000 5003,2048,50257 1024,768,50257 8192,1600,50257
4096,1024,50304 65536,1024,50304 16384,768,50304 3000,6144,100352 1000,2048,100352 4096,4096,100352 8192,4096,128256 512,4096,128256
2048,2048,128256 4096,8192,128256 16384,2048,128256 1500,3072,128256 4096,7168,129280 1024,7168,129280 600,1536,129280 1000,3584,151646
4096,2048,151646 2500,5120,151646 8192,1024,151936 4096,2560,151936 2048,896,151936 1024,4096,151936 2048,5120,202048 512,2048,202048
3000,3072,202048 8192,2304,256000 1024,3072,256000 2000,4608,256000 1024,2048,262144 2048,1152,262144 4096,3840,262144 700,5376,262144"""
# what no estimate was fitted to
UNSEEN = """8192,2048,64128 2048,1536,64000 6000,2560,100352 3500,4096,128256 900,2048,128256 1800,3584,152064 1280,1280,151936 4096,2304,256000
8192,5120,32000 12288,3072,50304 2304,8192,128256"""
REST = 0.03


def ways(case):
    for grad in ("bf16", "fp32"):
        for name, proposals in WAYS.items():
            try:
                yield (name, grad), M.Ours(case, K.AUTO, proposals=proposals, main_grad=grad == "fp32")
            except K.Error as error:
                print(f"{name} {grad}: {error}")


def profiled(plan):
    """[[name, microseconds]] of a run's kernels, in their order."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        plan.results()
        synchronize()
    kernels = [event for event in seen.events() if "Mem" not in event.name[:3]]
    kernels.sort(key=lambda event: event.time_range.start)
    return [[event.name[:60], round(event.time_range.elapsed_us(), 1)] for event in kernels]


def synchronize():
    import torch

    torch.cuda.synchronize()


def shape_of(text, library, clock, a, out, kernels):
    shape = N.read_shape(text)
    case = M.Case(library, *N.make_inputs(shape, "random", a.device))
    made = dict(ways(case))
    times = {key: [] for key in made}
    for turn in range(-1, a.rounds):  # the first does not count
        for key in random.sample(list(made), len(made)):
            time.sleep(REST if turn >= 0 else 0)
            ms = clock(made[key])
            made[key].release()
            if turn >= 0 and ms is not None:
                times[key].append(ms)
    for key, plan in made.items():
        info = plan.plan.info
        row = [*shape, *key, info.chunk_tokens, f"{info.workspace_size / 2**20:.1f}", f"{statistics.median(times[key]):.4f}", f"{min(times[key]):.4f}", f"{max(times[key]):.4f}"]
        print(*row, sep="\t", file=out, flush=True)
        if a.device == "cuda" and key[0] != "default" and not a.no_kernels:
            print(json.dumps({"shape": shape, "way": key, "chunk": info.chunk_tokens, "kernels": profiled(plan)}), file=kernels, flush=True)
    for plan in made.values():
        plan.close()


def main():
    parser = argparse.ArgumentParser(prog="bench_ce_sweep.py")
    parser.add_argument("library")
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--no-kernels", action="store_true")
    parser.add_argument("shapes", nargs="*", default=SHAPES.split())
    parser.add_argument("--unseen", action="store_true", help="the shapes that no estimate was fitted to")
    a = parser.parse_intermixed_args()
    a.shapes = UNSEEN.split() if a.unseen else a.shapes
    end = time.monotonic() + a.seconds
    clock = B.GpuClock() if a.device == "cuda" else B.HostClock()
    library = K.Library(a.library, K.CUDA if a.device == "cuda" else K.CPU)
    with open(a.out, "w") as out, open(a.out + ".kernels", "w") as kernels:
        print("n\th\tv\tproducts\tdweight\tchunk\tmib\tms\tleast\tmost", file=out)
        for done, text in enumerate(a.shapes):
            if time.monotonic() > end:
                print(f"time is up: {len(a.shapes) - done} shapes were not measured")
                return 1
            shape_of(text, library, clock, a, out, kernels)
            if a.device == "cuda":
                clock.cuda.empty_cache()
            print(f"{text} after {time.monotonic() - end + a.seconds:.1f} s, {B.card(a.device)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
