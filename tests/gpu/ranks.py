"""ranks.py kept | fsdp | check kept|fsdp DIR VRAMSCOPE - two ranks, of which rank 1 holds more: on one GPU it keeps something; on two,
under FSDP, it takes longer sequences, and makes a context on rank 0's GPU.
"""
import json
import os
import subprocess
import sys

KEPT = 24  # blocks of 16 MiB


def train(model, x, steps):
    import torch

    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        model(x()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()


def kept():
    import torch
    from torch import nn

    class Memory(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.kept = nn.Linear(1024, 4096), []

        def forward(self, x):
            y = self.up(x).relu()
            if os.environ["RANK"] == "1" and len(self.kept) < KEPT:
                self.kept.append(y.detach() * 2)  # KEEPS
            return y.mean(-1, keepdim=True) + x

    train(nn.Sequential(nn.Linear(1024, 1024), Memory(), nn.Linear(1024, 1024)).cuda(), lambda: torch.randn(1024, 1024, device="cuda"), 40)


def fsdp():
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.fsdp import fully_shard

    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    model = nn.Sequential(*(nn.Sequential(nn.Linear(2048, 8192), nn.GELU(), nn.Linear(8192, 2048)) for _ in range(8))).cuda()
    for block in model:
        fully_shard(block)
    fully_shard(model)
    if rank == 1:
        torch.zeros(1, device="cuda:0")  # the usual mistake
    x = torch.randn(4096 if rank == 0 else 6144, 2048, device="cuda")
    train(model, lambda: x, 6)
    dist.barrier()
    dist.destroy_process_group()


def faults_of_kept(job, text):
    line = next(i for i, l in enumerate(open(__file__), 1) if l.rstrip().endswith("# KEEPS"))
    over, wanted, shared = job["max_over_min"], KEPT * 16 << 20, job["shared_gpus"]
    if not 0.95 * wanted <= over["size_bytes"] <= 1.1 * wanted:
        yield f"by {over['size_bytes']} instead of {wanted}"
    if f"ranks.py:{line}" not in (over["line"] or "") or not 0.95 * wanted <= over["line_bytes"] <= 1.1 * wanted:
        yield f"line {over['line']}, {over['line_bytes']}"
    if not (over["layer"] or "").startswith("Sequential"):
        yield f"layer {over['layer']}"
    if len(shared) != 1 or len(shared[0]["others"]) != 1 or shared[0]["rank"] != 1:
        yield f"shared GPUs {shared}"


def faults_of_fsdp(job, text):
    shared = job["shared_gpus"]
    if [g["rank"] for g in shared] != [0] or not 100 << 20 <= shared[0]["others_bytes"] <= 2 << 30:
        yield f"shared GPUs: {shared}"
    if job["max_over_min"]["min_rank"] != 0:
        yield f"the lowest is rank {job['max_over_min']['min_rank']}"
    if "ncclCommInit" in text:  # NCCL's own NVTX ranges end with a payload; one that stays open has all that comes later
        yield "blocks lie in NCCL's initialisation"


def check(name, folder, vramscope):
    text = subprocess.run([vramscope, "report", "--all", folder], capture_output=True, text=True, env=dict(os.environ, COLUMNS="300")).stdout
    print("\n".join(text.split("\n")[:30]))
    (job,) = json.loads(subprocess.run([vramscope, "report", "--json", folder], capture_output=True, text=True).stdout)["jobs"]
    bad = [f"rank {job['peak_allocated']['max_rank']} is the highest"] * (job["peak_allocated"]["max_rank"] != 1)
    bad += {"kept": faults_of_kept, "fsdp": faults_of_fsdp}[name](job, text)
    over = job["max_over_min"]
    print(f"FAIL {name}: " + "; ".join(bad) if bad else f"PASS {name}: rank 1 is higher by {over['size_bytes'] >> 20} MiB: {over['line']}, {over['layer']}, {over['what']}")
    return bool(bad)


if __name__ == "__main__":
    sys.exit({"kept": kept, "fsdp": fsdp, "check": check}[sys.argv[1]](*sys.argv[2:]))
