#!/usr/bin/env python3
"""kernels_profile.py LIBRARY OUT --shape N,H,V[,%] ... [--lean] [--main-grad] : what bounds each kernel of one call, by the GPU's own counters.

One call a shape (loss and both gradients in bf16, after two to warm up) runs under Nsight Compute, which repeats each
kernel until all counters are read; clocks are left alone.  Printed of each kernel: how often and how long, how much of
the tensor cores' peak it used while it ran, bytes from and to DRAM, what L2 answered itself, and the two reasons for
which its warps waited most.  OUT: folder for what Nsight Compute wrote, all counters.  --lean: the lean mode;
--main-grad: dweight is added to in fp32.

A kernel is alone there, between pauses, so its time is shorter than in a call under the card's power cap: shares count.
"""
import argparse
import collections
import csv
import os
import re
import subprocess
import sys

SECTIONS = "SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "WarpStateStats", "Occupancy", "LaunchStats"
TIME = r"gpu__time_duration\.sum"
TENSOR = r"sm__inst_executed_pipe_tensor.*pct_of_peak_sustained_active|sm__pipe_tensor.*pct_of_peak_sustained_active"
DRAM = r"dram__bytes_(read|write)\.sum\.per_second|dram__bytes\.sum\.per_second"
DRAM_SHARE = r".*dram_+throughput.*pct_of_peak_sustained_elapsed"
L2 = r"lts__t_sector_hit_rate\.pct"
STALL = r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio"
SECONDS = {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1, "second": 1}
RATES = {"byte/s": 1e-12, "Kbyte/s": 1e-9, "Mbyte/s": 1e-6, "Gbyte/s": 1e-3, "Tbyte/s": 1,
         "byte/second": 1e-12, "Kbyte/second": 1e-9, "Mbyte/second": 1e-6, "Gbyte/second": 1e-3, "Tbyte/second": 1}


def call(library, shape, lean, main_grad):
    """The process that is profiled."""
    import torch

    import bench_ce_methods as M
    import bench_ce_numbers as N
    import kernels_lce as K

    inputs = N.make_inputs(N.read_shape(shape), "random", "cuda")  # makes the context that the library wants
    case = M.Case(K.Library(library, K.CUDA), *inputs)
    method = M.Ours(case, K.LEAN if lean else K.FAST, main_grad=main_grad)
    for _ in range(2):
        method.results()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    method.results()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    print(f"# {shape}: {method.note}")


def profiled(library, shape, path, how):
    sections = [word for name in SECTIONS for word in ("--section", name)]
    command = ["ncu", "--profile-from-start", "off", "--clock-control", "none", *sections, "--csv", "--page", "raw",
               "--log-file", path, sys.executable, os.path.abspath(__file__), library, os.path.dirname(path), "--call", shape, *how]
    return subprocess.run(command).returncode


def rows(path):
    """Of each launch the kernel's name and its counters, each with its unit."""
    with open(path, newline="") as file:
        lines = [line for line in file if line.startswith('"')]
    table = csv.reader(lines)
    names, units = next(table), next(table)
    for row in table:
        yield dict(zip(names, zip(row, units)))


def number(cell):
    return float(cell[0].replace(",", "")) if cell[0] not in ("", "n/a") else 0.0


def matching(row, pattern):
    return {name: cell for name, cell in row.items() if re.fullmatch(pattern, name)}


def short(name):
    """A kernel's name without what it returns, its arguments and its namespaces."""
    plain = re.sub(r"\(anonymous namespace\)::|<unnamed>::|\w+::|^void |\((int|bool|unsigned int|long)\)", "", name)
    return re.sub(r"\([^()]*\)$", "", plain)[:70]


class Kernel:
    """One kernel's launches; counters are means weighted by time."""

    def __init__(self):
        self.launches, self.seconds, self.sums = 0, 0.0, collections.Counter()

    def add(self, row):
        (time,) = matching(row, TIME).values()
        seconds = number(time) * SECONDS[time[1]]
        self.launches += 1
        self.seconds += seconds
        self.sums["tensor"] += seconds * max(map(number, matching(row, TENSOR).values()), default=0)
        self.sums["dram"] += seconds * sum(number(cell) * RATES[cell[1]] for cell in matching(row, DRAM).values())
        self.sums["dram share"] += seconds * max(map(number, matching(row, DRAM_SHARE).values()), default=0)
        self.sums["l2"] += seconds * sum(map(number, matching(row, L2).values()))
        for name, cell in matching(row, STALL).items():
            self.sums["stall " + re.fullmatch(STALL, name)[1]] += seconds * number(cell)

    def told(self, whole):
        mean = {name: value / self.seconds for name, value in self.sums.items()}
        stalls = sorted(((value, name[6:]) for name, value in mean.items() if name.startswith("stall ")), reverse=True)[:2]
        waits = ", ".join(f"{name} {value:.1f}" for value, name in stalls)
        return (f"{self.launches} | {self.seconds * 1e3:.3f} | {self.seconds / whole:.1%} | {mean['tensor']:.0f} % | "
                f"{mean['dram']:.2f} ({mean['dram share']:.0f} %) | {mean['l2']:.0f} % | {waits}")


def table(path):
    kernels = collections.defaultdict(Kernel)
    for row in rows(path):
        kernels[short(row["Kernel Name"][0])].add(row)
    whole = sum(kernel.seconds for kernel in kernels.values())
    print("| kernel | launches | ms | of all | tensor cores | DRAM, TB/s | L2 hits | waits (warps per issue) |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for name, kernel in sorted(kernels.items(), key=lambda item: -item[1].seconds):
        if kernel.seconds > 0.002 * whole:
            print(f"| `{name}` | {kernel.told(whole)} |")
    print(f"all kernels: {whole * 1e3:.3f} ms", flush=True)
    return whole > 0


def main():
    parser = argparse.ArgumentParser(prog="kernels_profile.py")
    parser.add_argument("library")
    parser.add_argument("out")
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--lean", action="store_true", help="the lean mode")
    parser.add_argument("--main-grad", action="store_true", help="dweight is added to in fp32")
    parser.add_argument("--call", help=argparse.SUPPRESS)
    parser.add_argument("--read", help="a file that Nsight Compute wrote, to tell again")
    a = parser.parse_args()
    if a.call:
        return call(a.library, a.call, a.lean, a.main_grad)
    if a.read:
        return 0 if table(a.read) else 1
    os.makedirs(a.out, exist_ok=True)
    how = ["--lean"] * a.lean + ["--main-grad"] * a.main_grad
    failed = 0
    for shape in a.shape or ["8192,4096,128256"]:
        path = os.path.join(os.path.abspath(a.out), "x".join(shape.split(",")) + "".join(how) + ".csv")
        failed |= profiled(os.path.abspath(a.library), shape, path, how) or not table(path)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
