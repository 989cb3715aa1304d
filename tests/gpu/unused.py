"""unused.py stream|graph|mempool|all - programs that reserve more than they allocate: when most is allocated, and at the end, the
states of all blocks as PyTorch's snapshot has them.
"""
import json
import sys

import torch

MIB = 1 << 20
case = sys.argv[1]


def block(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def stream():
    side = torch.cuda.Stream()
    for _ in range(16):
        t = block(64)
        with torch.cuda.stream(side):
            torch.cuda._sleep(200_000_000)
            t.zero_()
        t.record_stream(side)  # the line that is shown
        del t


def graph():
    static, kept, pool = block(32), [], torch.cuda.graph_pool_handle()
    for _ in range(2):
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g, pool=pool):  # the line that is shown
            a = static + 1
            b = a + 1
            c = b + a
        kept.append((g, c))
    return static, kept


def mempool():
    pool = torch.cuda.MemPool()  # the line that is shown
    with torch.cuda.use_mem_pool(pool):
        a, b = block(48), block(16)
    return pool, b


kept = [f() for name, f in (("graph", graph), ("mempool", mempool), ("stream", stream)) if case in (name, "all")]
cached = [block(n) for n in (3, 30, 7, 90)]
del cached[1], cached[2]
last = block(4096)
found = {"cached": 0, "waiting": 0, "private pool": 0, "allocated": 0, "reserved": 0}
for segment in torch.cuda.memory_snapshot():
    private = tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0)
    found["reserved"] += segment["total_size"]
    for b in segment["blocks"]:
        kind = {"active_allocated": "allocated", "inactive": "private pool" if private else "cached"}.get(b["state"], "waiting")
        found[kind] += b["size"]
print("facts", json.dumps(found))
