"""parts_rate.py OUT - how fast two GPUs with half of the vocabulary each are, per GPU, beside one GPU with all of it: whole / 2 /
half, of median times of the slower rank. By turns after a rest: the whole vocabulary; its half, with an exchange for each chunk;
its half in two runs.

PARTS_RATE_WAYS: the first must meet its target. PARTS_RATE_IGNORED: the share of ignored tokens. PARTS_RATE_SHAPES: only so many.
PARTS_RATE_SECONDS: after so many no more than 5 rounds of a shape.
"""
import json
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.environ.get("BINDING") or os.path.join(HERE, "../../shim/framework/python"))
from vramscope import cross_entropy_parts  # noqa: E402
from vramscope.cross_entropy import linear_cross_entropy  # noqa: E402

CPU = os.environ.get("PARTS_RATE_CPU")  # a trial of this file: tiny, over Gloo, judges losses only
SHAPES = [(64, 24, 130), (300, 16, 64)] if CPU else [(8192, 4096, 128256), (8192, 2048, 128256), (16384, 4096, 151936), (4096, 4096, 256000)]
ROUNDS, REST, SECONDS = (2, 0.0, 60) if CPU else (7, 0.3, int(os.environ.get("PARTS_RATE_SECONDS", 90)))
FEWEST = 2 if CPU else 5
SHOWN = os.environ.get("PARTS_RATE_WAYS", "as built,two runs").split(",")
IGNORED = float(os.environ.get("PARTS_RATE_IGNORED", 0))
SHAPES = SHAPES[: int(os.environ.get("PARTS_RATE_SHAPES", len(SHAPES)))]


def target(hidden):
    return 0.95 if hidden >= 4096 else 0.90


def case(device, tokens, hidden, vocab):
    """Input, the whole weight and labels, the same on every rank."""
    random = torch.Generator(device=device).manual_seed(1)
    dtype = torch.float32 if CPU else torch.bfloat16
    x = torch.randn(tokens, hidden, generator=random, device=device, dtype=dtype).requires_grad_()
    w = (torch.randn(vocab, hidden, generator=random, device=device, dtype=dtype) * hidden**-0.5).requires_grad_()
    y = torch.randint(vocab, (tokens,), generator=random, device=device)
    return x, w, torch.where(torch.rand(tokens, generator=random, device=device) < IGNORED, -100, y)


CHUNK_FOR = cross_entropy_parts.chunk_for
WAYS = {  # of parts: their chunks
    "as built": CHUNK_FOR,
    "all count": CHUNK_FOR,  # and says so
    "chunks of 4096": lambda *_: 4096,
    "two runs": lambda *_: 0,
}


def ways(x, w, y):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    half = w.detach()[w.size(0) // ranks * rank : w.size(0) // ranks * (rank + 1)].clone().requires_grad_()

    def parts(chunk, counted):
        cross_entropy_parts.chunk_for = chunk
        return linear_cross_entropy(x, half, y, group=dist.group.WORLD, max_counted=counted)

    calls = {"whole": lambda: linear_cross_entropy(x, w, y)}
    if "all count" in SHOWN:
        calls["whole, all count"] = lambda: linear_cross_entropy(x, w, y, max_counted=len(y))
    calls.update({name: lambda how=WAYS[name], counted=len(y) * (name == "all count"): parts(how, counted) for name in SHOWN})
    return calls, (x, w, half)


def once(call, leaves, device):
    dist.barrier()
    time.sleep(REST)
    if device.type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    loss = call()
    loss.backward()
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    for leaf in leaves:
        leaf.grad = None
    return seconds, loss.item()


def measure(device, shape, until):
    calls, leaves = ways(*case(device, *shape))
    times, losses = {name: [] for name in calls}, {}
    for turn in range(ROUNDS + 1):  # the first one loads code
        enough = torch.tensor([int(turn > FEWEST and time.time() > until)], device=device)
        dist.all_reduce(enough)
        if enough.item():
            break
        names = list(calls)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:  # who is first changes, alike on all ranks
            seconds, losses[name] = once(calls[name], leaves, device)
            slowest = torch.tensor([seconds], dtype=torch.float64, device=device)
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            if turn:
                times[name].append(slowest.item() * 1e3)
    return times, losses


def process(rank, folder, out):
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    device = torch.device("cpu") if CPU else torch.device("cuda", rank)
    if not CPU:
        torch.cuda.set_device(rank)
    dist.init_process_group("gloo" if CPU else "nccl", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    began, rows = time.time(), []
    for i, shape in enumerate(SHAPES):
        rows.append((shape, *measure(device, shape, began + SECONDS * (i + 1) / len(SHAPES))))
    if rank == 0:
        with open(out, "w") as file:
            json.dump({"device": "CPU" if CPU else torch.cuda.get_device_name(0), "torch": torch.__version__, "rows": rows}, file)
    dist.destroy_process_group()


def table(out):
    with open(out) as file:
        facts = json.load(file)
    print(f"two of {facts['device']}, torch {facts['torch']}; {IGNORED:.0%} ignored; loss and both gradients, {'fp32' if CPU else 'bf16'}, ms of the slower rank after a rest: median (least - most), share of the single GPU's rate")
    bad = 0
    for (n, h, v), times, losses in facts["rows"]:
        middle = {name: statistics.median(all_) for name, all_ in times.items()}
        share = {name: middle["whole, all count" if name == "all count" else "whole"] / 2 / time for name, time in middle.items()}
        off = max(abs(loss / losses["whole"] - 1) for loss in losses.values())
        good = off < 1e-5 and (bool(CPU) or share[SHOWN[0]] >= target(h))
        bad += not good
        cells = "; ".join(f"{name} {middle[name]:.2f} ({min(all_):.2f} - {max(all_):.2f})" + f" {share[name]:.1%}" * (not name.startswith("whole")) for name, all_ in times.items())
        print(f"{'ok  ' if good else 'FAIL'} N={n} H={h} V={v}: {cells}; target {target(h):.0%}, losses apart {off:.1e}")
    return bad


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as meeting:
        mp.spawn(process, (meeting, sys.argv[1]), 2)
    sys.exit(bool(table(sys.argv[1])))
