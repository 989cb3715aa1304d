"""ranks.py CASE...: what a rank of many holds and gets, that runs alone; says "good" after each."""
import gc
import os
import sys
import time

import torch
import torch.distributed as dist

ROWS, COLUMNS, LAYERS = 4096, 256, 6
WHOLE = LAYERS * ROWS * COLUMNS * 4


def begin(backend=None):
    if dist.is_initialized():
        return
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend)
    assert (dist.get_rank(), dist.get_world_size()) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        with torch.device("cuda"):
            self.each = torch.nn.ModuleList(torch.nn.Linear(COLUMNS, ROWS, bias=False) for _ in range(LAYERS))

    def forward(self, x):
        return sum(layer(x).sum() for layer in self.each)


def train(net):
    optimizer = torch.optim.AdamW(net.parameters(), foreach=False)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.ones(1, COLUMNS, device="cuda")).backward()
        optimizer.step()
    return optimizer


def held(wanted):
    """What is allocated once NCCL's watchdog has seen that the device is done, which it looks for ten times a second."""
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.synchronize()
    until = time.monotonic() + 120
    while torch.cuda.memory_allocated() != wanted and time.monotonic() < until:
        gc.collect()  # what it kept may be the last of a circle
        time.sleep(0.02)
    return torch.cuda.memory_allocated()


def shards():
    """FSDP2: parameters, gradients and both states are a part each."""
    from torch.distributed.fsdp import fully_shard

    begin("nccl")
    net = Layers()
    for layer in net.each:
        fully_shard(layer)
    fully_shard(net)
    part = WHOLE // dist.get_world_size()
    assert held(part) == part, (torch.cuda.memory_allocated(), part)
    assert [p.to_local().shape[0] for p in net.parameters()] == [ROWS // dist.get_world_size()] * LAYERS
    optimizer = train(net)
    assert held(4 * part) == 4 * part, (torch.cuda.memory_allocated(), part, len(optimizer.state))


def copies():
    """DDP: each rank has all of it, gradients as parts of buckets."""
    begin("nccl")
    net = torch.nn.parallel.DistributedDataParallel(Layers(), device_ids=[torch.cuda.current_device()], gradient_as_bucket_view=True)
    optimizer = train(net)
    assert held(4 * WHOLE) == 4 * WHOLE, (torch.cuda.memory_allocated(), WHOLE, len(optimizer.state))


def rebuilt():
    """DDP's second step makes new buckets, beside the first ones where a collective on them is not known to be done."""
    begin("nccl")
    train(torch.nn.parallel.DistributedDataParallel(Layers(), device_ids=[torch.cuda.current_device()]))


def exchange():
    """What collectives leave: sizes and objects are this rank's, sums this rank's times the ranks."""
    begin()
    ranks, rank = dist.get_world_size(), dist.get_rank()
    mine = torch.tensor([rank + 3, 5], device="cuda")
    dist.all_reduce(mine)
    assert mine.tolist() == [(rank + 3) * ranks, 5 * ranks]
    parts = [torch.zeros(2, dtype=torch.int64, device="cuda") for _ in range(ranks)]
    dist.all_gather(parts, torch.tensor([rank, 7], device="cuda"))
    assert [p.tolist() for p in parts] == [[rank, 7]] * ranks
    sent = torch.arange(ranks, device="cuda")
    got = torch.empty_like(sent)
    dist.all_to_all_single(got, sent)
    assert got.tolist() == list(range(ranks))
    host = dist.new_group(backend="gloo")
    assert dist.get_backend(host) == "gloo"
    for group in (None, host):
        objects = [None] * ranks
        dist.all_gather_object(objects, {"rank": rank}, group=group)
        assert objects == [{"rank": rank}] * ranks
        dist.barrier(group)
    dist.monitored_barrier(host)
    on_host = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4), process_group=host)
    on_host(torch.ones(2, 4)).sum().backward()
    assert on_host.module.weight.grad.size() == (4, 4)
    word = ["mine" if rank == 0 else None]
    dist.broadcast_object_list(word, src=0)
    assert word == ["mine" if rank == 0 else None]
    part = dist.new_group([0, ranks - 1])
    if rank in (0, ranks - 1):
        one = torch.tensor([1], device="cuda")
        dist.all_reduce(one, group=part)
        assert one.item() == 2
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cuda", (2, ranks // 2), mesh_dim_names=("outer", "inner"))
    assert (mesh["outer"].size(), mesh["inner"].size(), mesh.get_local_rank("outer")) == (2, ranks // 2, rank // (ranks // 2))
    dist.destroy_process_group()


def waits():
    """What nobody can know ends the run, and does not hang."""
    begin()
    dist.distributed_c10d._get_default_store().get("what another rank says")


for case in sys.argv[1:]:
    globals()[case]()
    gc.collect()
    print("good", flush=True)
