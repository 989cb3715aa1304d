"""cross_entropy_ranks.py [cpu|cuda] [PATTERN] - the loss where two processes train together: gradients are those of PyTorch's loss in one process
that has the data of both.  BINDING names the folder of the package vramscope.
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.environ.get("BINDING") or os.path.join(HERE, "../../../shim/framework/python"))
from cross_entropy_binding_kit import distance, raises  # noqa: E402
from cross_entropy_ranks_kit import RANKS, ddp, here, mesh, spawn, whole  # noqa: E402
from vramscope.cross_entropy import linear_cross_entropy  # noqa: E402

TOKENS, HIDDEN, VOCAB = 12, 16, 50


class Model(nn.Module):
    """An embedding, a layer, and an output layer; its loss FUSED or PyTorch's.  TIED: embedding and output share a weight."""

    def __init__(self, fused=True, tied=False):
        super().__init__()
        torch.manual_seed(3)
        self.embed, self.layer, self.head = nn.Embedding(VOCAB, HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, VOCAB)
        self.fused = fused
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, ids, labels):
        hidden = self.layer(self.embed(ids)).tanh()
        if self.fused:
            return linear_cross_entropy(hidden, self.head.weight, labels, self.head.bias)
        return F.cross_entropy(self.head(hidden).float(), labels)


def data(rank, step=0):
    return torch.randint(VOCAB, (2, TOKENS), generator=torch.Generator().manual_seed(100 + rank + 10 * step))


def mine(step=0):
    return data(dist.get_rank(), step).to(here())


def together(tied=False, steps=1, dtype=torch.float32):
    """The gradients, the mean over ranks and steps, that one process gets without any of what is tested."""
    model = Model(fused=False, tied=tied).to(dtype)
    for step in range(steps):
        for rank in range(RANKS):
            (model(*data(rank, step)) / RANKS / steps).backward()
    return {name: p.grad.double() for name, p in model.named_parameters()}


def agree(model, want, limit=2e-5):
    for name, parameter in model.named_parameters():
        error = distance(whole(parameter.grad), want[name.removeprefix("module.")])
        assert error < limit, f"the gradient of {name} is off by {error:.1e}"


def test_ddp_with_accumulation_and_tied_weights():
    for tied in (False, True):
        model = ddp(Model(tied=tied).to(here()))
        model(*mine()).backward()
        agree(model, together(tied))
        model.zero_grad(set_to_none=True)
        with model.no_sync():
            (model(*mine(0)) / 2).backward()
        (model(*mine(1)) / 2).backward()
        agree(model, together(tied, 2))


def test_fsdp2_around_the_whole_model():
    for tied in (False, True):
        model = fully_shard(Model(tied=tied).to(here()), mesh=mesh(RANKS))
        model(*mine()).backward()
        assert isinstance(model.head.weight.grad, DTensor) and model.head.weight.grad.placements == (Shard(0),)
        agree(model, together(tied))


def test_fsdp2_with_compute_in_bf16():
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = fully_shard(Model().to(here()), mesh=mesh(RANKS), mp_policy=policy)
    model(*mine()).backward()
    assert model.head.weight.grad.dtype == torch.float32
    agree(model, together(), 2e-2)


def test_a_weight_that_is_sharded_where_the_loss_is_called():
    """As FSDP2 leaves it outside of the wrapped module's forward: gathered, and the gradient comes back as FSDP2's do."""
    layouts = ((mesh(RANKS), [Shard(0)]), (mesh(RANKS), [Shard(1)]), (mesh(RANKS), [Replicate()]), (mesh(1, RANKS), [Replicate(), Shard(0)]))
    for where, placements in layouts:
        for reduction in ("mean", "none"):
            model = Model().to(here())
            ids, labels = mine()
            hidden = model.layer(model.embed(ids)).tanh()
            weight = nn.Parameter(distribute_tensor(model.head.weight.detach(), where, placements))
            bias = nn.Parameter(distribute_tensor(model.head.bias.detach(), where, [Replicate()] * where.ndim))
            linear_cross_entropy(hidden, weight, labels, bias, reduction=reduction).mean().backward()
            want = together()
            assert weight.grad.placements == tuple(placements), weight.grad.placements
            for name, parameter in (("head.weight", weight), ("head.bias", bias)):
                error = distance(parameter.grad.full_tensor(), want[name])
                assert error < 2e-5, f"{placements}, {reduction}: {name} is off by {error:.1e}"
    sharded = distribute_tensor(hidden.detach(), mesh(RANKS), [Shard(0)])
    raises(ValueError, "input is a DTensor; give each rank its own part", linear_cross_entropy, sharded, weight, labels)


def test_a_compiled_model_under_ddp_and_fsdp2():
    torch._dynamo.reset()
    inner = torch.compile(Model().to(here()), backend="aot_eager", fullgraph=True)
    model = ddp(inner)
    model(*mine()).backward()
    agree(inner._orig_mod, together())
    torch._dynamo.reset()
    model = fully_shard(Model().to(here()), mesh=mesh(RANKS))
    torch.compile(model, backend="aot_eager")(*mine()).backward()
    agree(model, together())


if __name__ == "__main__":
    spawn(__file__)
