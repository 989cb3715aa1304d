#!/usr/bin/env python3
"""bench_ce_budgets.py [--seconds S] [--rounds R] [--profile] [--both] [--main-grad] [--way WAY]... [--device cpu] --library NAME=PATH... [TOKENS,HIDDEN,VOCABULARY]... - what small budgets cost, on a GPU.

Per shape, bf16, random logits, loss (mean) and both gradients: the default, the default with every token promised to
count, and budgets from max(2 MiB, 32 bytes a token) on, with a dweight that is the library's to overwrite, and with an
fp32 main_grad that is added to.  All plans of all libraries by turns in one process, in random order, 0.05 s of rest before
each; medians with least and greatest, and how much of the first library's default each takes.  Errors of the least and
the largest budget against fp64; each plan's results are computed twice, and their bits compared.  --profile: the kernels
of the least budget, or of main_grad's 16 MiB.
"""
import argparse
import random
import statistics
import sys
import time

import torch

import bench_ce_methods as M
import bench_ce_numbers as N
import kernels_lce as K

SHAPES = "8192,4096,128256 1000,3584,151646 5003,2048,50257 16384,3072,128256 8192,2304,256000 16384,2048,128256 4096,1024,50304"
REST = 0.05
OURS = 1 << 14  # in proposals


def timed(call, device):
    if device == "cpu":
        began = time.perf_counter()
        call()
        return 1e3 * (time.perf_counter() - began)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def plans(case, both, main_grad, ways):
    """The ways by name; a way that does not fit its budget is left out, and said.  BOTH: small budgets with products of ours and
    with cuBLASLt's, too.  MAIN_GRAD: only the ways that add to it.  WAYS: only these."""
    n = case.shape[0]
    least = max(2 << 20, 32 * n)
    found = {"default": {}, "default, all count": {"max_counted": n}, "least": {"budget": least}, "16 MiB": {"budget": 16 << 20},
             "61 MiB": {"budget": 61 << 20}, "lean": {"mode": K.LEAN}, "main_grad": {"main_grad": True},
             "main_grad, least": {"main_grad": True, "budget": least}, "main_grad, 16 MiB": {"main_grad": True, "budget": 16 << 20},
             "main_grad, 61 MiB": {"main_grad": True, "budget": 61 << 20}}
    if both:
        for name, budget in (("least", least), ("16 MiB", 16 << 20)):
            for whose, proposals in (("ours", OURS), ("cuBLASLt's", K.CUBLASLT)):
                found[f"{name}, {whose}"] = {"budget": budget, "proposals": proposals}
                found[f"main_grad, {name}, {whose}"] = {"main_grad": True, "budget": budget, "proposals": proposals}
    for name, how in found.items():
        if main_grad and not how.get("main_grad") or ways and name not in ways:
            continue
        try:
            yield name, M.Ours(case, how.pop("mode", K.AUTO), **how)
        except K.Error as error:
            print(f"{name}: {error}")


def profiled(name, plan):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        plan.results()
    for event in sorted(seen.key_averages(), key=lambda e: -e.device_time_total)[:12]:
        print(f"  {name:18s} {event.device_time_total / 1e3:8.3f} ms {event.count:4d} x {event.key[:100]}", flush=True)


def judge(case, made, budgets):
    """Names of the ways whose bits differ from run to run; prints errors of those in BUDGETS."""
    want, differ = N.reference(case.x, case.w, case.labels), []
    for key, plan in made.items():
        one = [t.clone() for t in plan.results()]
        if not all(torch.equal(a, b) for a, b in zip(one, plan.results())):
            differ.append(key)
        if key[1] in budgets:
            loss, dx, dw = N.errors(one, want)
            print(f"  {key}: errors of the loss {loss:.1e}, dX {dx:.2e}, dW {dw:.2e}")
        plan.release()
    return differ


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=90, help="of all shapes together")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--both", action="store_true", help="small budgets with products of ours and with cuBLASLt's, too")
    parser.add_argument("--main-grad", action="store_true", help="only where an fp32 dweight is added to")
    parser.add_argument("--way", action="append", default=[], help="only this way, as the table names it; the default must be among them")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--library", action="append", required=True, metavar="NAME=PATH")
    parser.add_argument("shapes", nargs="*", default=SHAPES.split())
    arguments = parser.parse_intermixed_args()
    device = arguments.device
    if device == "cuda" and not torch.cuda.is_available():
        print("skipped: no GPU for PyTorch")
        return 77
    torch.zeros(1, device=device)  # makes the context
    libraries = {name: K.Library(path, K.CUDA if device == "cuda" else K.CPU) for name, path in (text.split("=", 1) for text in arguments.library)}
    end, failed = time.monotonic() + arguments.seconds, False
    print(f"{torch.cuda.get_device_name() if device == 'cuda' else device}, torch {torch.__version__}")
    for done, text in enumerate(arguments.shapes):
        stop = time.monotonic() + (end - time.monotonic()) / (len(arguments.shapes) - done)
        inputs = N.make_inputs(N.read_shape(text), "random", device)
        made = {(name, way): plan for name, library in libraries.items() for way, plan in plans(M.Case(library, *inputs), arguments.both, arguments.main_grad, arguments.way)}
        print(f"\n{text}")
        differ = judge(M.Case(None, *inputs), made, ("default", "least", "16 MiB", "main_grad", "main_grad, 16 MiB"))
        failed = failed or bool(differ)
        times = {key: [] for key in made}
        for turn in range(arguments.rounds):
            for key in random.sample(list(made), len(made)):
                if len(times[key]) > 1 and statistics.median(times[key]) > 1000:
                    continue
                time.sleep(REST)
                times[key].append(timed(made[key], device))
                made[key].release()
            if time.monotonic() > stop:
                break
        first = {way: statistics.median(values) for (name, way), values in reversed(times.items())}
        for (name, way), values in times.items():
            ratio = statistics.median(values) / first["main_grad" if way.startswith("main_grad") else "default"]
            print(f"| {way} | {name} | {statistics.median(values):.2f} ({min(values):.2f} – {max(values):.2f}) | {ratio:.3f} | {made[name, way].note} |", flush=True)
        print(f"  {len(next(iter(times.values())))} rounds; other bits in a second run: {differ or 'none'}", flush=True)
        if arguments.profile:
            key = next(iter(libraries)), "main_grad, 16 MiB" if arguments.main_grad else "least"
            profiled(key[1], made[key])
        for plan in made.values():
            plan.close()
        del made, inputs
        if device == "cuda":
            torch.cuda.empty_cache()
    return failed


if __name__ == "__main__":
    sys.exit(main())
