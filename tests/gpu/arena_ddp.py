"""arena_ddp.py --facts FACTS.json [--steps N] (by torchrun) | --copies | --verify FOLDER - two GPUs: DistributedDataParallel,
collectives, copies between the GPUs; every word that arrives is checked.
"""
import argparse
import glob
import json
import os
import random
import sqlite3
import statistics
import sys
import time

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from arena_train import Decoder, SIZES, tokens  # noqa: E402

MIB = 1 << 20


def expect(right, what):
    if not right:
        print(f"FAIL  rank {os.environ.get('RANK', '-')}: {what}", flush=True)
        sys.exit(1)


# ---- between processes ----


def collectives(rank, world):
    """Sizes up to 512 MiB, buffers that come and go, so that new ones lie where old ones were."""
    rng = random.Random(5)
    for n in range(40):
        count = int(2 ** rng.uniform(4, 27))
        x = torch.full((count,), float(rank + 1), device="cuda")
        dist.all_reduce(x)
        expect(bool((x == world * (world + 1) / 2).all()), f"all_reduce of {count}")
        parts = [torch.empty(count // 4 + 1, device="cuda") for _ in range(world)]
        dist.all_gather(parts, torch.full((count // 4 + 1,), float(rank * 100 + n), device="cuda"))
        expect(all(bool((p == r * 100 + n).all()) for r, p in enumerate(parts)), f"all_gather of {count}")
        y = torch.full((count,), float(rank * 7 + n), device="cuda")
        if rank == 0:
            dist.send(y, 1)
        else:
            dist.recv(y, 0)
        expect(bool((y == n).all()), f"send of {count}")
    torch.cuda.synchronize()


def train(a, rank):
    s = argparse.Namespace(**SIZES["multi"])
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = Decoder(s).to(torch.bfloat16)
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    rng, losses, step_ms = random.Random(rank), [], []
    lengths = random.Random(99)
    for _ in range(a.steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the others add up in any order
            loss = model(tokens(rng, s, lengths.randint(64, s.longest)).cuda())
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / dist.get_world_size())
        step_ms.append((time.perf_counter() - begin) * 1e3)
    return {"losses": losses, "step_ms": step_ms}


def job(a):
    rank = int(os.environ["RANK"])
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    collectives(rank, dist.get_world_size())
    facts = train(a, rank)
    free, total = torch.cuda.mem_get_info()
    if rank == 0:
        with open(a.facts, "w") as file:
            json.dump(dict(facts, device_used=total - free), file)
    dist.barrier()
    dist.destroy_process_group()


# ---- between the GPUs of one process ----


def copies():
    """Both ways, between memory that was there before the access and memory that came after it."""
    expect(torch.cuda.device_count() >= 2, "there are no two GPUs")
    print(f"peer access: {torch.cuda.can_device_access_peer(0, 1)}, {torch.cuda.can_device_access_peer(1, 0)}")
    rng, kept = random.Random(2), []
    for n in range(80):
        source, target = rng.choice([(0, 1), (1, 0)])
        count = int(2 ** rng.uniform(4, 27))
        x = torch.arange(n, n + count, dtype=torch.int32, device=f"cuda:{source}")
        y = x.to(f"cuda:{target}", non_blocking=True)
        wanted = torch.arange(n, n + count, dtype=torch.int32, device=f"cuda:{target}")
        expect(torch.equal(y, wanted), f"copy of {count} from {source} to {target}")
        expect(torch.equal(y.to(f"cuda:{source}"), x), f"copy of {count} back")
        kept.append(y)
        if len(kept) > 12:
            kept.pop(rng.randrange(len(kept)))
    print("80 copies each way, every word right")


# ---- whether the jobs of arena_ddp.sh trained alike, how fast, and what was recorded of each rank ----


def facts(folder, name):
    try:
        with open(os.path.join(folder, name + ".json")) as file:
            return json.load(file)
    except OSError:
        return None


def recordings(folder, name):
    """A line for each process that was recorded."""
    for path in sorted(glob.glob(os.path.join(folder, name + ".d", "*.db"))):
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        rank, = db.execute("SELECT rank FROM process").fetchone()
        for device, allocated, reserved in db.execute("SELECT device, max(allocated_bytes), max(reserved_bytes) FROM timeline GROUP BY device"):
            yield rank, f"{os.path.basename(path)}: rank {rank}, device {device}: allocated {allocated / MIB:.1f} MiB, reserved {reserved / MIB:.1f} MiB"
        db.close()


def verify(folder):
    wrong = 0
    native = facts(folder, "native")
    for name in ("native", "native-ipc", "arena", "arena-ipc", "arena-under"):
        found = facts(folder, name)
        if not found or not native:
            print(f"FAIL  {name}: it left no facts")
            wrong = 1
            continue
        same = found["losses"] == native["losses"]
        wrong |= not same
        ms = statistics.median(found["step_ms"][5:])
        print(f"{'ok   ' if same else 'FAIL '} {name:12} {len(found['losses'])} losses, the last {found['losses'][-1]:.6f}, "
              f"{'those of native' if same else 'NOT those of native'}; step {ms:.2f} ms; device {found['device_used'] / MIB:.0f} MiB used")
    for name in ("arena", "arena-ipc", "arena-under"):
        lines = list(recordings(folder, name))
        print("\n".join(f"{name}: {line}" for _, line in lines))
        if not {0, 1} <= {rank for rank, _ in lines}:
            print(f"FAIL  {name}: not both ranks were recorded")
            wrong = 1
    return wrong


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--facts")
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--copies", action="store_true")
    p.add_argument("--verify", metavar="FOLDER")
    a = p.parse_args()
    if a.verify:
        sys.exit(verify(a.verify))
    copies() if a.copies else job(a)


if __name__ == "__main__":
    main()
