"""predictions_zero.py STAGE [MODEL] [--cpu] - a MODEL of predictions_model.py (one of SHAPES) over the ranks that torchrun starts;
prints each rank's peaks as JSON.

STAGE: 0 is DDP alone, 1 with ZeroRedundancyOptimizer, 2 and 3 fully_shard: at 2 what was gathered for forward stays for backward.
"""
import gc
import json
import os
import sys

import torch
import torch.distributed as dist

import predictions_model as models

stage, cpu = int(sys.argv[1]), "--cpu" in sys.argv
model = next((a for a in sys.argv[2:] if a[0] != "-"), "llama")
rank = int(os.environ["LOCAL_RANK"])
device = "cpu" if cpu else f"cuda:{rank}"
if not cpu:
    torch.cuda.set_device(rank)
dist.init_process_group("gloo" if cpu else "nccl", device_id=None if cpu else torch.device(device))
torch.manual_seed(1)
net, loss_of = models.workload(model, 0.25 if cpu else 1, 0.125 if cpu else 1, torch.float32, device)
if stage >= 2:
    from torch.distributed.fsdp import fully_shard

    for layer in models.layers_of(net, model):
        fully_shard(layer, reshard_after_forward=stage == 3)
    fully_shard(net, reshard_after_forward=stage == 3)
    wrapped = net
else:
    wrapped = torch.nn.parallel.DistributedDataParallel(net, device_ids=None if cpu else [rank], gradient_as_bucket_view=True)
if stage == 1:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    optimizer = ZeroRedundancyOptimizer(wrapped.parameters(), torch.optim.AdamW)
else:
    optimizer = torch.optim.AdamW(wrapped.parameters())
if not cpu:  # the whole model lived before it was sharded, which is not the question
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
for step in range(1 if cpu else 5):
    shape = (1, 64) if cpu else models.SHAPES[model]
    ids = torch.randint(net.config.vocab_size, shape, device=device)
    wrapped(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
row = {"stage": stage, "rank": rank, "ranks": dist.get_world_size()}
if not cpu:
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    row.update(allocated=torch.cuda.max_memory_allocated(), reserved=torch.cuda.max_memory_reserved(), device_used=total - free)
sys.stdout.write(json.dumps(row) + "\n")  # at once: the ranks share the file
sys.stdout.flush()
dist.barrier()
dist.destroy_process_group()
