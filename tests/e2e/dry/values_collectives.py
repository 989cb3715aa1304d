"""values_collectives.py: what ranks exchange, by a rank that is alone."""
import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl", init_method="file://" + os.environ["MEETING"], rank=0, world_size=1)
counts = torch.tensor([3, 4], device="cuda")
dist.all_reduce(counts)
parts, whole = [torch.empty_like(counts)], torch.empty_like(counts)
dist.all_gather(parts, counts)
dist.all_gather_into_tensor(whole, counts)
dist.broadcast(whole, 0)
print(counts.tolist(), parts[0].tolist(), whole.tolist())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
model(torch.zeros(2, 4, device="cuda")).sum().backward()
dist.destroy_process_group()
