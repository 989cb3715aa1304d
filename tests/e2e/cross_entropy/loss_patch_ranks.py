"""loss_patch_ranks.py [cpu|cuda] [PATTERN] - vramscope.patch_loss where two processes train a model together: DDP, FSDP1, FSDP2."""
import itertools

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from loss_patch_kit import make, text  # its path to vramscope comes before

import vramscope
from cross_entropy_binding_kit import distance
from cross_entropy_ranks_kit import RANKS, ddp, here, mesh, spawn, whole

NAMES = "Llama", "Gemma2", "GPT2"  # Gemma2 and GPT2 with tied weights


def alone(name):
    """The mean of the ranks' losses and its gradients, of the model as it is, in one process."""
    model = make(name)
    losses = [model(**text(rank)).loss / RANKS for rank in range(RANKS)]
    sum(losses).backward()
    return [RANKS * float(loss) for loss in losses], {n: p.grad.double() for n, p in model.named_parameters()}


def agree(model, name, limit=2e-5):
    """A step of MODEL in this process, on its own data, has the loss and the gradients that `alone` has."""
    losses, want = alone(name)
    output = model(**text(dist.get_rank(), device=here()))
    assert output.logits is None
    assert abs(float(output.loss) - losses[dist.get_rank()]) < limit * float(output.loss)
    output.loss.backward()
    for n, parameter in model.named_parameters():
        n = n.replace("_orig_mod.", "").removeprefix("module.")
        error = distance(whole(parameter.grad), want[n])
        assert error < limit, f"{name}: the gradient of {n} is off by {error:.1e}"


def test_ddp_patched_before_and_after():
    for name, early in itertools.product(NAMES, (False, True)):
        model = make(name).to(here())
        if early:
            vramscope.patch_loss(model)
        model = ddp(model)
        if not early:
            vramscope.patch_loss(model)
        agree(model, name)
        vramscope.unpatch_loss(model)
        assert model(**text(0, device=here())).logits is not None


def sharded(model, head):
    """MODEL by layers, as people shard it; HEAD: its output layer by itself, too."""
    decoder = model.get_decoder() if hasattr(model, "get_decoder") else model.transformer
    for layer in getattr(decoder, "layers", None) or decoder.h:
        fully_shard(layer, mesh=mesh(RANKS))
    if head:
        fully_shard(model.lm_head, mesh=mesh(RANKS))
    return fully_shard(model, mesh=mesh(RANKS))


def test_fsdp2_patched_before_and_after():
    for name, early, head in itertools.product(NAMES, (False, True), (False, True)):
        if head and name != "Llama":
            continue  # a tied weight belongs to one group
        model = make(name).to(here())
        if early:
            vramscope.patch_loss(model)
        model = sharded(model, head)
        if not early:
            vramscope.patch_loss(model)
        agree(model, name)
        assert isinstance(model.lm_head.weight.grad, DTensor) and model.lm_head.weight.grad.to_local().shape[0] < 307
        model.zero_grad()
        agree(model, name)
        vramscope.unpatch_loss(model)
        assert model(**text(0, device=here())).logits is not None


def test_fsdp2_that_computes_in_bf16():
    model = make("Llama").to(here())
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    fully_shard(model.lm_head, mesh=mesh(RANKS), mp_policy=policy)
    model = fully_shard(model, mesh=mesh(RANKS), mp_policy=policy)
    vramscope.patch_loss(model)
    agree(model, "Llama", 3e-2)


def test_gpu_fsdp1():
    for original, head in itertools.product((True, False), (False, True)):
        model = make("Llama").to(here())
        if head:
            model.lm_head = FullyShardedDataParallel(model.lm_head, use_orig_params=original)
        model = FullyShardedDataParallel(model, use_orig_params=original)
        vramscope.patch_loss(model)
        losses, want = alone("Llama")
        output = model(**text(dist.get_rank(), device=here()))
        assert output.logits is None and abs(float(output.loss) - losses[dist.get_rank()]) < 1e-4
        output.loss.backward()
        norm = float(model.clip_grad_norm_(1e9))
        wanted = float(torch.stack([g.norm() for g in want.values()]).norm())
        assert abs(norm - wanted) < 1e-5 * wanted, (norm, wanted)


def test_compiled_and_sharded():
    torch._dynamo.reset()
    model = make("Llama").to(here())
    vramscope.patch_loss(model)
    agree(torch.compile(ddp(model), backend="aot_eager"), "Llama")
    torch._dynamo.reset()
    model = sharded(make("Llama").to(here()), True)
    vramscope.patch_loss(model)
    agree(torch.compile(model, backend="aot_eager"), "Llama")


if __name__ == "__main__":
    spawn(__file__)
