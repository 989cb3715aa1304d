"""whatif.py CASE SNAPSHOT - runs what whatif.sh replays, and writes PyTorch's snapshot of it.
whatif.py verdict CASE REPLAY.json [BOUND] - every address and segment event must agree; BOUND: this share is enough.
"""
import json
import sys

LIMIT_GIB = 3.0  # for the cases that run out


def model(width):
    from torch import nn

    return nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(width, width), nn.GELU())]).cuda()


def train(steps, width=2048, lengths=(256, 512, 1024), streams=0):
    import torch

    net, side = model(width), [torch.cuda.Stream() for _ in range(streams)]
    optimizer = torch.optim.AdamW(net.parameters())
    for step in range(steps):
        x = torch.randn(lengths[step % len(lengths)], width, device="cuda")
        for stream in side:  # memory that another stream uses last
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                y = x * 2
                z = y.sum(0)
            x.record_stream(stream)
            y.record_stream(torch.cuda.current_stream())
            torch.cuda.current_stream().wait_stream(stream)
            del y, z
        net(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def crowd(rounds):
    """Sizes that change until what is cached must go back, and requests that fail."""
    import torch

    kept = []
    for i in range(rounds):
        size = (37 + 61 * i % 400) << 20
        try:
            kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            kept = kept[len(kept) // 2 :]
        if i % 5 == 0 and kept:
            kept.pop(0)


def churn(rounds):
    """Sizes that change, and blocks that go in the order in which they came: what is cached grows old."""
    import torch

    kept = []
    for i in range(rounds):
        kept.append(torch.empty((21 + 47 * i % 230) << 20, dtype=torch.uint8, device="cuda"))
        if len(kept) > 6:
            kept.pop(0)


def pools():
    """Two private pools beside the common one; one ends before the program does."""
    import torch

    for size in (1, 2):
        pool = torch.cuda.MemPool()
        for step in range(4):
            with torch.cuda.use_mem_pool(pool):
                inside = [torch.empty((1 + 3 * i * size + step) << 20, dtype=torch.uint8, device="cuda") for i in range(8)]
            train(1, width=512)
            del inside[::2]
        del inside
        torch.cuda.empty_cache()
        del pool
        train(2, width=1024)


def graphs():
    """A captured forward and backward, replayed between steps that are not."""
    import torch

    net, x = model(1024), torch.randn(512, 1024, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            net(x).square().mean().backward()
    torch.cuda.current_stream().wait_stream(side)
    net.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        net(x).square().mean().backward()
    for _ in range(3):
        graph.replay()
        train(1, width=1024)


def sharded(steps, width=2048):
    """FSDP, a rank of a job: gathers, reductions and the computation each have a stream."""
    import torch
    from torch.distributed.fsdp import fully_shard

    net = model(width)
    for layer in net:
        if sum(p.numel() for p in layer.parameters()):
            fully_shard(layer)
    fully_shard(net)
    optimizer = torch.optim.AdamW(net.parameters())
    for step in range(steps):
        net(torch.randn(256 << step % 3, width, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def run(case, path):
    import torch

    if case == "fsdp":
        import os

        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group("nccl")
        path += os.environ["RANK"]

    limited = case in ("retry", "gc", "expandable_retry", "split", "collect")
    if limited:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(LIMIT_GIB * 2**30 / total)
    if case == "midway":
        train(3)
    torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python")
    if case == "collect":
        churn(300)
    elif limited:
        crowd(200)
    elif case == "fsdp":
        sharded(6)
    elif case in ("pools", "graphs"):
        {"pools": pools, "graphs": graphs}[case]()
    elif case == "empty_cache":
        for _ in range(3):
            train(2)
            torch.cuda.empty_cache()
    else:
        train(8, streams=3 if "streams" in case else 0)
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(path)
    if case == "fsdp":
        torch.distributed.destroy_process_group()


def verdict(case, path, bound=1.0):
    policy = "torch-expandable" if case.startswith("expandable") else "torch-native"
    try:
        devices = json.load(open(path))["devices"]
    except (OSError, ValueError, KeyError) as error:
        print("FAIL", case, error)
        return True
    device = max(devices, key=lambda d: d["blocks"])
    p = next(p for p in device["policies"] if p["policy"] == policy)
    same, all_ = p["addresses_same"], p["addresses"]
    good = p["exact"] if bound == 1 else bool(all_) and same >= bound * all_
    print("PASS" if good else "FAIL", case, p["reliance"], f"reserved {p['reserved_bytes']}")
    return not good


if __name__ == "__main__":
    if sys.argv[1] == "verdict":
        sys.exit(verdict(sys.argv[2], sys.argv[3], *map(float, sys.argv[4:])))
    run(*sys.argv[1:])
