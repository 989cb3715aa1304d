"""torch_agrees.py FACTS - a program whose every byte PyTorch keeps books of; FACTS gets what it says, FACTS.pickle its snapshot (none in the arena).

At each figure the counters are read and begin anew, and the recording gets a mark of the same name.  Roles are those that the program knows of the
tensors that live at the end.
"""
import gc
import json
import sys
import threading

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import vramscope
from vramscope import _roles

_roles.ALWAYS = 1000  # looks, one after each step
MIB = 1 << 20
ARENA = torch.cuda.get_allocator_backend() == "pluggable"
figures, roles, held = [], [], []
if not ARENA:
    torch.cuda.memory._record_memory_history(context="all", stacks="python", max_entries=1 << 20)


def empty(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def figure(name):
    vramscope.mark(name)
    stats = torch.cuda.memory_stats()
    figures.append([name, *(stats[f"{kind}.all.{what}"] for kind in ("allocated_bytes", "reserved_bytes") for what in ("current", "peak")), stats["num_ooms"]])
    torch.cuda.reset_peak_memory_stats()


def shapes():
    """Of every magnitude, of no elements and of no dimension, slices and views, and storages that are resized."""
    kept = [empty(n) for n in (0, 1, 511, 512, 513, MIB - 1, MIB, MIB + 1, 10 * MIB - 1, 10 * MIB, 21 * MIB + 3, 200 * MIB)]
    kept += [torch.empty(shape, dtype=t, device="cuda") for shape, t in (((), torch.float64), ((3, 0, 5), torch.int8), ((1, 1, 1, 1, 1, 7), torch.bfloat16), ((1 << 21, 3), torch.bool))]
    kept.append(torch.empty_strided((5, 7), (1000, 3), device="cuda"))
    kept.append(kept[-2][1 << 20 :].t().contiguous())
    grown = empty(100)
    grown.resize_(3 * MIB)
    grown.untyped_storage().resize_(0)
    del kept[1::2], grown
    held.append(empty(7 * MIB))


def two_streams():
    side, other = torch.cuda.Stream(), torch.cuda.Stream()
    x = empty(4 * MIB)
    x.record_stream(side)
    del x
    with torch.cuda.stream(side):
        y = empty(4 * MIB)
        z = empty(1000)
    y.record_stream(other)
    y.record_stream(torch.cuda.current_stream())
    del y
    held.extend([empty(4 * MIB), z])
    torch.cuda.synchronize()
    held.append(empty(4 * MIB))


def threads():
    turn = threading.Barrier(3)

    def work(n):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for i in range(30):
                kept = [empty((n + 1) * 1000 * (i % 7 + 1)) for _ in range(5)]
                kept[i % 5].record_stream(torch.cuda.default_stream())
                turn.wait()
            held.append(kept[2])

    all_ = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for t in all_:
        t.start()
    for t in all_:
        t.join()
    torch.cuda.synchronize()


def graphs():
    x = torch.ones(512, 512, device="cuda")
    x @ x  # cuBLAS takes memory of its own, which no capture can
    torch.cuda.synchronize()
    first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(first):
        y = (x * 2).relu() + 1
    with torch.cuda.graph(second, pool=first.pool()):
        z = (y @ y).relu()
    first.replay()
    second.replay()
    held.extend([first, second, x, y, z])
    third = torch.cuda.CUDAGraph()
    with torch.cuda.graph(third):
        x.exp()
    third.reset()
    del third
    torch.cuda.empty_cache()


def pools():
    if [int(n) for n in torch.__version__.split(".")[:2]] < [2, 8]:
        return  # not there, or not with expandable segments
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        held.append(empty(30 * MIB))
        gone = empty(1000)
    held.extend([empty(30 * MIB), pool])
    del gone


def dies():
    """Behind all else: what is cached goes back before memory runs out."""
    limit = torch.cuda.memory_reserved() + 100 * MIB
    torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.get_device_properties(0).total_memory)
    try:
        empty(limit + 3 * MIB)
    except torch.OutOfMemoryError:
        torch.cuda.set_per_process_memory_fraction(1.0)
    else:
        raise SystemExit("nothing ran out")


class Model(nn.Module):
    def __init__(self, recompute):
        super().__init__()
        self.embed, self.head, self.recompute = nn.Embedding(1000, 64), nn.Linear(64, 1000, bias=False), recompute
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(3))
        self.register_buffer("table", torch.zeros(64, 64))

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = h + (checkpoint(block, h, use_reentrant=False) if self.recompute else block(h)) @ self.table
        return self.head(h)


def train(recompute):
    model = Model(recompute).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    for step in range(3):
        x = torch.randint(0, 1000, (4, 128 + 64 * step), device="cuda")
        F.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
        optimizer.step()
        figure(f"step {recompute} {step}")
        if step < 2:
            optimizer.zero_grad()
    parameters = list(model.parameters())
    named = [(t, role) for group, role in ((parameters, "parameter"), ([p.grad for p in parameters], "gradient"), (model.buffers(), "buffer")) for t in group]
    named += [(t, "optimizer state") for state in optimizer.state.values() for t in state.values() if t.is_cuda]
    roles.extend([t.untyped_storage().data_ptr(), t.untyped_storage().nbytes(), role] for t, role in named)
    held.extend([model, optimizer])


for part in (shapes, two_streams, threads, graphs, pools, lambda: train(False), lambda: train(True), torch.cuda.empty_cache, dies):
    part()
    gc.collect()
    torch.cuda.synchronize()
    figure(f"part {len(figures)}")
if not ARENA:
    torch.cuda.memory._dump_snapshot(sys.argv[1] + ".pickle")
vramscope.mark("snapshot")
with open(sys.argv[1], "w") as file:
    json.dump({"arena": ARENA, "figures": figures, "roles": roles}, file)
