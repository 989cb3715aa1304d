"""Two ranks of FSDP on two GPUs, of which rank 1 takes longer sequences and makes a context on rank 0's GPU.

    torchrun --nproc-per-node 2 rank_fsdp.py    (under vramscope run -o DIR/rank%r.db)
    rank_fsdp.py check DIR VRAMSCOPE            the report names rank 1, activations or forward, and the foreign context
"""
import json
import os
import subprocess
import sys


def train():
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
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(4096 if rank == 0 else 6144, 2048, device="cuda")
    for _ in range(6):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    dist.barrier()
    dist.destroy_process_group()


def check(folder, vramscope):
    text = subprocess.run([vramscope, "report", "--all", folder], capture_output=True, text=True, env=dict(os.environ, COLUMNS="200")).stdout
    print("\n".join(text.split("\n")[:40]))
    (job,) = json.loads(subprocess.run([vramscope, "report", "--json", folder], capture_output=True, text=True).stdout)["jobs"]
    bad = []
    if job["peak_allocated"]["max_rank"] != 1:
        bad.append(f"rank {job['peak_allocated']['max_rank']} is the highest")
    if [g["rank"] for g in job["shared_gpus"]] != [0] or not 100 << 20 <= job["shared_gpus"][0]["others_bytes"] <= 2 << 30:
        bad.append(f"shared GPUs: {job['shared_gpus']}")
    if job["max_over_min"]["min_rank"] != 0:
        bad.append(f"the lowest is rank {job['max_over_min']['min_rank']}")
    if "ncclCommInit" in text:  # NCCL's own NVTX ranges end with a payload; one that stays open has all that comes later
        bad.append("blocks lie in NCCL's initialisation")
    print("FAIL " + "; ".join(bad) if bad else "PASS rank 1 is the highest and rank 0 the lowest, and the context of the one on the other's GPU is said")
    print(json.dumps(job["max_over_min"]), json.dumps(job["residual_over_min"]))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(check(sys.argv[2], sys.argv[3]) if sys.argv[1:2] == ["check"] else train())
