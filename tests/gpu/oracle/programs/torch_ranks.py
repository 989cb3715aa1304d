"""torch_ranks.py ddp|fsdp - one rank of a distributed training job over NCCL, started by torchrun."""
import os
import sys

import torch
import torch.distributed as dist

import truth
from model import Model, batches, loss_of


def wrapped(how, model, device):
    if how == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=[device])
    from torch.distributed.fsdp import fully_shard
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def main():
    how, device = sys.argv[1], int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=torch.device("cuda", device))
    torch.manual_seed(0)
    model = wrapped(how, Model().cuda(), device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for tokens in batches(5, f"cuda:{device}", seed=dist.get_rank()):
        loss = loss_of(model, tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(round(loss.item(), 2))
    total = torch.tensor([sum(losses)], device=f"cuda:{device}")
    dist.all_reduce(total)
    torch.cuda.synchronize()
    counters = truth.torch_counters(torch, device)
    truth.mark(device=device, **counters)
    dist.barrier()
    if dist.get_rank() == 0:
        truth.report(losses=losses, total=round(total.item(), 1))
    dist.destroy_process_group()


main()
