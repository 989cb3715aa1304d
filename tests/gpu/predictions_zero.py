"""predictions_zero.py STAGE - ZeRO's stage 1 (DDP with ZeroRedundancyOptimizer), or 3 (fully_shard of each layer), of predictions_model.py's
Llama over the ranks that torchrun starts: prints the first rank's peaks as JSON.  Stage 0: DDP alone.
"""
import json
import os
import sys

import torch
import torch.distributed as dist

import predictions_model as models

stage, rank = int(sys.argv[1]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
torch.manual_seed(1)
net, loss = models.workload("llama", 1, 1, torch.float32, f"cuda:{rank}")
before = torch.cuda.memory_allocated()
if stage == 3:
    from torch.distributed.fsdp import fully_shard

    for layer in models.layers_of(net, "llama"):
        fully_shard(layer)
    fully_shard(net)
    wrapped = net
else:
    wrapped = torch.nn.parallel.DistributedDataParallel(net, device_ids=[rank], gradient_as_bucket_view=True)
if stage == 1:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    optimizer = ZeroRedundancyOptimizer(wrapped.parameters(), torch.optim.AdamW)
else:
    optimizer = torch.optim.AdamW(wrapped.parameters())
for step in range(5):
    ids = torch.randint(32000, (4, 512), device=f"cuda:{rank}")
    wrapped(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 1:
        torch.cuda.reset_peak_memory_stats()  # the whole model lived before it was sharded
if rank == 0:
    print(json.dumps({"stage": stage, "ranks": dist.get_world_size(), "allocated": torch.cuda.max_memory_allocated(),
                      "reserved": torch.cuda.max_memory_reserved(), "before": before}))
dist.destroy_process_group()
