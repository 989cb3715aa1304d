#!/usr/bin/env python3
"""Measures the held-out programs of third.tsv on the GPU at hand, for tests/gpu/dry/score.py.

    measure.py OUT [--jobs 12] [--only WORD...]     all programs, under each allocator, to OUT/third.jsonl
    measure.py OUT --set programs                   the five of programs.tsv, to OUT/programs.jsonl
    measure.py OUT --refusals                       then three of these with less memory than they need, to OUT/refusals.jsonl
    measure.py OUT --beside                         what a process holds beside PyTorch's memory, to OUT/beside.jsonl
    measure.py --tiny [--only WORD...]              every program once on the CPU, tiny

What a file has already is not measured again, but with --again, which marks it. torch.compile's caches are empty for each run,
unless TORCHINDUCTOR_CACHE_DIR is set.
"""
import argparse
import concurrent.futures
import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ALLOCATORS = {"native": "", "expandable": "expandable_segments:True"}

# Runs as sitecustomize in each measured process. The limit of memory has to be set before the program's first tensor.
HOOK = '''
import atexit, json, os, sys

def used():
    import pynvml
    pynvml.nvmlInit()
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(pynvml.nvmlDeviceGetHandleByIndex(0))
    return next((p.usedGpuMemory for p in processes if p.pid == os.getpid()), None)

def at_end():
    torch = sys.modules.get("torch")
    if torch and torch.cuda.is_initialized():
        cudnn = torch.backends.cudnn.version() if torch.backends.cudnn.is_available() else None
        try:
            mine = used()
        except Exception as e:
            mine = repr(e)
        print("\\n" + json.dumps({"nvml": mine, "reserved_at_end": torch.cuda.memory_reserved(), "cudnn": cudnn}), flush=True)

if os.environ.get("HELD_HOOK"):
    atexit.register(at_end)
'''

# What lies beside PyTorch's memory, looked at after each thing that may take some.
BESIDE = '''
import json, os, torch, pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
rows = []
def look(name):
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    mine = next((p.usedGpuMemory for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle) if p.pid == os.getpid()), None)
    rows.append({"after": name, "nvml": mine, "device_used": total - free, "reserved": torch.cuda.memory_reserved(), "total": total})
torch.cuda.init()
torch.cuda.mem_get_info()
look("context")
x = torch.empty(1024, device="cuda"); look("first tensor, no kernel")
x.fill_(1); look("first kernel")
y = torch.randn(512, 512, device="cuda"); look("random numbers")
y @ y; look("matrix product, float32")
z = y.bfloat16(); z @ z; look("matrix product, bf16")
torch.nn.functional.linear(z, z, z[0]); look("linear with bias, bf16")
c = torch.nn.Conv2d(8, 8, 3).cuda(); c(torch.randn(2, 8, 32, 32, device="cuda")).sum().backward(); look("convolution and its backward")
r = torch.nn.LSTM(16, 16).cuda(); r(torch.randn(4, 2, 16, device="cuda"))[0].sum().backward(); look("LSTM and its backward")
q = torch.randn(2, 4, 64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward(); look("attention and its backward")
torch.fft.rfft(y); look("FFT")
torch.linalg.cholesky(torch.eye(64, device="cuda")); look("Cholesky")
torch.sort(y); torch.nonzero(y > 0); torch.unique(y.long()); look("sort, nonzero, unique")
s = torch.cuda.Stream()
with torch.cuda.stream(s):
    y @ y
look("matrix product on a second stream")
print(json.dumps({"beside": rows}))
'''


def table(name, only):
    """Rows of third.tsv or programs.tsv: family, values (bool), the program with its arguments, tiny arguments."""
    for line in (HERE / f"{name}.tsv").read_text().splitlines():
        if line.startswith("#"):
            continue
        family, values, command, tiny = (part.strip() for part in line.split("|"))
        if not only or any(word in command or word in family for word in only):
            yield {"family": family, "values": values == "values", "program": command.split()[0], "args": command.split()[1:]}, tiny.split()


def figures(output):
    """All lines of the output that are JSON objects, taken together: `by_step`, and the last of everything else."""
    found = {"by_step": []}
    for line in output.splitlines():
        if not line.startswith("{"):
            continue
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if "step" in row:
            found["by_step"].append([row["allocated"], row["reserved"]])
        else:
            found.update(row)
    return found


def run(command, environment, limit):
    """One process: its figures, or what it died of."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as hooks:
        pathlib.Path(hooks, "sitecustomize.py").write_text(HOOK)
        if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:  # what is compiled is compiled anew: compiling takes memory, too
            environment = {**environment, "TORCHINDUCTOR_CACHE_DIR": hooks + "/inductor", "TRITON_CACHE_DIR": hooks + "/triton"}
        path = os.pathsep.join([hooks] + [p for p in [os.environ.get("PYTHONPATH")] if p])
        start = time.monotonic()
        try:
            environment = {**os.environ, "PYTHONPATH": path, "HELD_HOOK": "1", "OMP_NUM_THREADS": "2", **environment}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit, errors="replace", check=False)
        except subprocess.TimeoutExpired:
            return {"failed": f"longer than {limit} s"}
    found = figures(done.stdout)
    found["seconds"] = round(time.monotonic() - start, 1)
    missing = re.search(r"ModuleNotFoundError: (No module named .*)", done.stderr)
    if done.returncode:
        last = [line for line in done.stderr.strip().splitlines() if line.strip()][-1:] or [""]
        found["skipped" if missing else "failed"] = missing.group(1) if missing else f"status {done.returncode}: {last[0][:300]}"
    return found


class Results:
    """A file of JSON lines that grows; knows which rows it has."""

    def __init__(self, path, again):
        self.path, self.again = path, again
        self.have = set()
        if path.exists():
            self.have = {self.key(json.loads(line)) for line in path.read_text().splitlines()}

    @staticmethod
    def key(row):
        return row["program"], tuple(row["args"]), row["allocator"], row.get("share")

    def wanted(self, row):
        return self.again or self.key(row) not in self.have

    def add(self, row):
        seconds = row.pop("seconds", None)
        with self.path.open("a") as f:
            f.write(json.dumps({**row, "again": True} if self.again else row) + "\n")
        said = row.get("failed") or row.get("skipped") or f"{row.get('allocated', 0) / 2**30:.2f} {row.get('reserved', 0) / 2**30:.2f} GiB"
        if "refused" in row:
            said = f"refused {row['refused']} in step {len(row['by_step'])}"
        print(f"{row['program']} {' '.join(row['args'])} {row['allocator']}: {said} ({seconds} s)", flush=True)


def at_once(rows, measure, results, jobs):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(measure, row): row for row in rows if results.wanted(row)}
        for done in concurrent.futures.as_completed(waiting):
            results.add({**waiting[done], **done.result()})


def versions():
    names = "torch", "torchvision", "transformers", "accelerate", "peft", "triton", "nvidia-cudnn-cu13", "nvidia-cublas"
    found = {d.name.lower(): d.version for d in importlib.metadata.distributions() if d.name and d.name.lower() in names}
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    return {**found, "gpu": subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()}


def python(folder, row, *more):
    return [sys.executable, *more, str(HERE / folder / row["program"]), *row["args"]]


def allocator(row):
    return {"PYTORCH_CUDA_ALLOC_CONF": ALLOCATORS[row["allocator"]]}


def programs(a, out):
    (out / "versions.json").write_text(json.dumps(versions()) + "\n")
    rows = [{**row, "allocator": name} for row, _ in table(a.set, a.only) for name in ALLOCATORS]
    at_once(rows, lambda row: run(python(a.set, row), allocator(row), a.timeout), Results(out / f"{a.set}.jsonl", a.again), a.jobs)


def refusals(a, out):
    peaks = {}
    for line in (pathlib.Path(a.peaks) if a.peaks else out / "programs.jsonl").read_text().splitlines():
        row = json.loads(line)
        peaks.setdefault((row["program"], tuple(row["args"]), row["allocator"]), row.get("reserved"))
    rows = []
    for program in ("llama_gqa.py", "resnet_amp.py", "ragged_lengths.py"):
        for name in ALLOCATORS:
            peak = peaks.get((program, (), name))
            for share in (0.5, 0.6, 0.75, 0.85, 0.95) if peak else ():
                rows.append({"program": program, "args": [], "allocator": name, "share": share, "limit": int(peak * share) >> 21 << 21})
    at_once(rows, lambda row: run(python("programs", row, str(HERE / "limited.py"), str(row["limit"])), allocator(row), a.timeout),
            Results(out / "refusals.jsonl", a.again), a.jobs)


def beside(a, out):
    with (out / "beside.jsonl").open("a") as f:
        for allocator, setting in ALLOCATORS.items():
            found = run([sys.executable, "-c", BESIDE], {"PYTORCH_CUDA_ALLOC_CONF": setting}, a.timeout)
            f.write(json.dumps({"allocator": allocator, **found}) + "\n")
            print(allocator, found, flush=True)


def tiny(a):
    bad = 0
    for row, arguments in table(a.set, a.only):
        found = run(["nice", *python(a.set, row), *arguments, "--device", "cpu"], {}, a.timeout)
        bad += "failed" in found or "reserved" not in found or len(found["by_step"]) < 3
        said = found.get("failed") or found.get("skipped") or f"{len(found['by_step'])} steps"
        print(row["program"], *row["args"], said, found.get("seconds"), flush=True)
    return bad


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out", nargs="?")
    p.add_argument("--jobs", type=int, default=12)
    p.add_argument("--timeout", type=int, default=150)
    p.add_argument("--only", nargs="*")
    p.add_argument("--set", choices=("third", "programs"), default="third", help="which programs")
    p.add_argument("--peaks", help="the programs.jsonl whose peaks the refusals are shares of")
    for flag in ("--again", "--refusals", "--beside", "--tiny"):
        p.add_argument(flag, action="store_true")
    a = p.parse_args()
    if a.tiny:
        return 1 if tiny(a) else 0
    out = pathlib.Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    (refusals if a.refusals else beside if a.beside else programs)(a, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
