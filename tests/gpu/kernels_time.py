#!/usr/bin/env python3
"""kernels_time.py LIBRARY [--shape N,H,V] [--tune] [--device cpu]: what the ways of the softmax pass, the type of the
logits and the lean mode cost.

Loss and all gradients, bf16, peaked inputs: times and workspaces of the methods in turn, errors of loss, dinput and
dweight against fp64, then what each kernel takes of it.  --tune: each of the first proposals that cuBLASLt has for each
product.  Clock, rounds, inputs and errors are bench_ce.py's; the comparison with other programs is there too.
"""
import argparse

import bench_ce as B
import bench_ce_chunks as Chunks
import bench_ce_methods as M
import bench_ce_numbers as N
import kernels_lce as K

METHODS = {
    "fast": M.ours(K.FAST),
    "fast, exponentials kept": M.ours(K.FAST, proposals=K.KEEP_EXPONENTIALS),
    "fast, fp32 logits": M.ours(K.FAST, flag="F32_LOGITS"),
    "lean": M.ours(K.LEAN),
    "lean, fp32 logits": M.ours(K.LEAN, flag="F32_LOGITS"),
}
# Each product with as few others as can be
PRODUCTS = {"logits": 1, "dinput": 3, "dweight": 5}
PROPOSALS = 6


def errors(made, case):
    want = N.reference(case.x, case.w, case.labels)
    for name, method in made.items():
        loss, dx, dw = N.errors(method.results(), want)
        method.release()
        print(f"{name:24s} errors: loss {loss:.1e} dinput {dx:.2e} dweight {dw:.2e}", flush=True)


def kernels(made):
    from torch.profiler import ProfilerActivity, profile

    for name, method in made.items():
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            method.results()
        method.release()
        for event in sorted(seen.key_averages(), key=lambda e: -e.device_time_total)[:8]:
            print(f"  {name:24s} {event.device_time_total / 1e3:8.3f} ms {event.count:4d} x {event.key[:90]}", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="kernels_time.py")
    parser.add_argument("library")
    parser.add_argument("--shape", default="8192,4096,128256")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rest", type=float, default=0.1)
    parser.add_argument("--tune", action="store_true")
    a = parser.parse_args()
    clock = B.GpuClock() if a.device == "cuda" else B.HostClock()
    library = K.Library(a.library, K.CUDA if a.device == "cuda" else K.CPU)
    case = M.Case(library, *N.make_inputs(N.read_shape(a.shape), "peaked", a.device))
    print(f"# {a.shape}: {B.card(a.device)}")
    made = {name: build(case) for name, build in METHODS.items()}
    errors(made, case)
    if a.device == "cuda":
        kernels(made)
    Chunks.race(clock, case, made, a.rest)
    for place, (product, wants) in enumerate(PRODUCTS.items()) if a.tune else ():
        tried = {f"{product}, proposal {i}": M.Ours(case, K.FAST, wants=wants, proposals=i << 4 * place) for i in range(PROPOSALS)}
        Chunks.race(clock, case, tried, a.rest)
    print(f"{a.shape}: all was timed")


if __name__ == "__main__":
    main()
