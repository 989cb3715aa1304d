"""values_true.py - each case runs on the CPU and on the device of a dry run: both must give the same, and no line of facts may come.
Before that a rank that is alone exchanges: MEETING is a file for it."""

import os
import random

import torch
import torch.distributed as dist
import torch.nn.functional as F

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


@case
def masks(to):
    x = to(torch.tensor([[1, 2, 3, 0, 0], [4, 0, 0, 0, 0]]))
    m = x != 0
    return [m, m.sum(-1), x[m], m.nonzero(), torch.where(m), m.any(), m.all(), (~m).sum(), m.float().sum().item(), x.masked_fill(m, 7), torch.masked_select(x, m)]


@case
def causal_mask(to):
    device = to(torch.zeros(1)).device
    i = torch.arange(6, device=device)
    causal = i[:, None] >= i[None]
    padding = to(torch.tensor([[1, 1, 1, 1, 0, 0]])).bool()
    both = causal[None] & padding[:, None, :]
    full = torch.full((6, 6), -1, device=device).triu(1)
    return [both, both.all(), both[:, -1].sum(), full, torch.ones(3, 3, dtype=torch.bool, device=device).tril(), padding.logical_not().any()]


@case
def packed(to):
    pos = to(torch.cat([torch.arange(5), torch.arange(3), torch.arange(9)]))
    starts = (pos == 0).nonzero().flatten()
    ends = torch.cat([starts, torch.tensor([pos.numel()], device=pos.device)])
    lengths = ends.diff()
    cu = F.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    return [starts, ends, lengths, cu, lengths.max().item(), int(cu[-1]), [len(part) for part in torch.split(pos, lengths.tolist())]]


@case
def counted(to):
    x = to(torch.tensor([3, 1, 3, 3, 0, 1]))
    r = to(torch.tensor([2, 0, 3]))
    return [torch.bincount(x), torch.bincount(x, minlength=9), torch.unique(x), torch.unique(x, return_inverse=True, return_counts=True), torch.unique_consecutive(x),
            torch.repeat_interleave(r), torch.arange(3, device=x.device).repeat_interleave(r), torch.histc(x.int(), 4, 0, 3) if x.is_cuda else torch.tensor([1, 2, 0, 3], dtype=torch.int32),
            F.one_hot(x), F.one_hot(x, 6), F.one_hot(x).sum(0), x.sort(), x.argsort(), x.topk(2).values, x.max(0), x.argmax(), x.unique().numel(), x.float().mean().item()]


@case
def unique_rows(to):
    x = to(torch.tensor([[1, 2], [3, 4], [1, 2]]))
    return [torch.unique(x, dim=0), torch.unique(x, dim=0, return_counts=True)]


@case
def written(to):
    x = to(torch.zeros(8, dtype=torch.int64))
    x[2:5] = 3
    x[to(torch.tensor([0, 7]))] = to(torch.tensor([9, 8]))
    y = x.clone()
    y[y == 3] = 1
    y.scatter_(0, to(torch.tensor([1])), 5)
    z = torch.empty(4, dtype=torch.int32, device=x.device)
    z.copy_(x[:4])
    w = x.new_full((2, 2), 6)
    w += 1
    w.index_add_(0, to(torch.tensor([1])), w[:1].clone())
    b = torch.zeros_like(x, dtype=torch.bool)
    b[1::2] = True
    out = torch.empty_like(x)
    torch.add(x, y, alpha=2, out=out)
    return [x, y, z, w, b, out, x[b], torch.cat([x, y]).view(4, 4).t().contiguous(), torch.stack([x, y]).sum(0), x.roll(2), x.flip(0), x.index_select(0, z.long().abs() % 8)]


@case
def image_tokens(to):
    ids = to(torch.tensor([[5, 99, 99, 7], [99, 1, 2, 3]]))
    mask = (ids == 99).unsqueeze(-1).expand(2, 4, 16)
    embeds = to(torch.zeros(2, 4, 16))
    return [(ids == 99).sum(), embeds[mask].shape, mask.sum().item(), torch.isin(ids, torch.tensor([99, 7], device=ids.device))]


@case
def shapes(to):
    x = to(torch.arange(12)).view(3, 4)
    return [x[1:, ::2], x.t()[2], x.expand(2, 3, 4).sum((0, 1)), x.cumsum(1), x.prod(1), x // 5, x % 5, -x, x * 2 - 1, x.clamp(2, 7), x.gather(1, x % 4), torch.where(x > 5, x, -1),
            x.to(torch.int32).cpu(), x.bool().all(1), x.min(1).indices, torch.searchsorted(x.flatten(), x.flatten()), x.bitwise_and(6), x.tolist(), x[0, 1].item(), bool(x[0, 0] == 0), x.float().tolist()]


@case
def sparse(to):
    """How many indices differ is read by a library, by itself; integers that a sparse kernel writes are nobody's zeros."""
    rows, both = to(torch.tensor([3, 1, 3, 3, 0, 1])), to(torch.tensor([[0, 1, 0], [2, 2, 2]]))
    one = torch.sparse_coo_tensor(rows[None], torch.ones(6, 4, device=rows.device), (10, 4))
    two = torch.sparse_coo_tensor(both, torch.ones(3, device=rows.device), (4, 4))
    weight = torch.ones(9, 2, device=rows.device, requires_grad=True)
    F.embedding(rows, weight, padding_idx=0, sparse=True).sum().backward()
    bag = torch.nn.EmbeddingBag(9, 2, sparse=True).to(rows.device)
    bag(rows, to(torch.tensor([0, 2]))).sum().backward()
    return [part for t in (one, one + one, two, weight.grad, bag.weight.grad) for part in (t.coalesce()._nnz(), t.coalesce().indices())]


@case
def host_random_numbers(to):
    """What the device draws is none of the host's."""
    device = to(torch.zeros(1)).device
    torch.manual_seed(0)
    if device.type == "cuda":
        torch.empty(9, dtype=torch.int64, device=device).random_()
        torch.randn(9, device=device), torch.randperm(9, device=device), torch.bernoulli(torch.ones(9, device=device)), torch.empty(9, device=device).exponential_()
    return torch.rand(3)


@case
def rectified(to):
    x = to(torch.tensor([-3, 2]))
    return [x.relu(), x.relu_(), x]


@case
def a_number_to_the_power_of(to):
    """As transformers' rotary embeddings are made: 10000 ** (arange / size)."""
    return (2.0 ** to(torch.arange(4.0))).size()


def flat(value):
    if isinstance(value, torch.Tensor):
        return value.dtype, list(value.size()), value.tolist()
    if isinstance(value, (list, tuple)):
        return [flat(part) for part in value]
    return value


STEPS = [
    lambda t, u, n: t + u, lambda t, u, n: t - 2 * u, lambda t, u, n: t * n, lambda t, u, n: t // (u.abs() + 1), lambda t, u, n: t.remainder(n + 2), lambda t, u, n: (t > u).long(),
    lambda t, u, n: torch.where(t != n, t, u), lambda t, u, n: t.masked_fill(u > n, n), lambda t, u, n: t.flip(0), lambda t, u, n: t.roll(n), lambda t, u, n: t.sort().values, lambda t, u, n: t.cumsum(0),
    lambda t, u, n: t.clone().fill_(n) + u, lambda t, u, n: t.clone().index_fill_(0, u.abs() % t.numel(), n), lambda t, u, n: t[u.argsort(stable=True)], lambda t, u, n: t.gather(0, u.abs() % t.numel()),
    lambda t, u, n: t.clamp(min=n), lambda t, u, n: torch.minimum(t, u), lambda t, u, n: t.clone().scatter_(0, torch.arange(t.numel(), device=t.device), u), lambda t, u, n: t.to(torch.int32).to(torch.int64),
    lambda t, u, n: torch.cat([t, u])[: t.numel()], lambda t, u, n: t.clone().copy_(u), lambda t, u, n: t.eq(u).logical_not().long(), lambda t, u, n: t.clone().add_(u).mul_(n + 1), lambda t, u, n: t.sum() + u,
    lambda t, u, n: t.float().long(), lambda t, u, n: t.view(-1, 2).max(1).values.repeat(2), lambda t, u, n: t.bitwise_xor(u), lambda t, u, n: t.abs().clamp(max=20).cumsum(0) - u,
    lambda t, u, n: t.clone().zero_() + t[n % t.numel()], lambda t, u, n: torch.full_like(t, n).sub_(u), lambda t, u, n: torch.unique(t).sum() + u, lambda t, u, n: t[t > n].sum() + u, lambda t, u, n: torch.bincount(t.abs() % 7).max() + u,
]


def random_program(seed, to):
    """The same operators on both, chosen at random."""
    rng = random.Random(seed)
    first = [[rng.randrange(-9, 10) for _ in range(8)] for _ in range(3)]
    there = [to(torch.tensor(values)) for values in first]
    for _ in range(25):
        step, a, b, n = rng.choice(STEPS), rng.randrange(3), rng.randrange(3), rng.randrange(5)
        there[rng.randrange(3)] = step(there[a], there[b], n).remainder(1000)
    return there


def collectives():
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


def main():
    collectives()
    facts, failed = os.environ["VRAMSCOPE_DRY_FACTS"], 0
    for seed in range(100):
        CASES[f"seed {seed}"] = lambda to, seed=seed: random_program(seed, to)
    for name, function in CASES.items():
        before = os.path.getsize(facts) if os.path.exists(facts) else 0
        wanted, got = flat(function(lambda t: t)), flat(function(lambda t: t.cuda()))
        with open(facts, "a+") as file:
            file.seek(before)
            told = file.read()
        if wanted != got or told:
            failed += 1
            print(f"{name}: {told}")
            for a, b in zip(wanted, got):
                if a != b:
                    print(f"    {a}\n    {b}")
    print(len(CASES), "cases", failed, "failed")
    raise SystemExit(failed > 0)


main()
