"""cross_entropy_parts.py [cpu|cuda] [PATTERN] - the loss of an output layer whose rows several processes have between them is PyTorch's in double
precision in one process that has the whole weight.  RANKS says how many processes (2 unless it is set); BINDING names the folder of the package
vramscope.
"""
import itertools
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.tensor import Shard, distribute_tensor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.environ.get("BINDING") or os.path.join(HERE, "../../../shim/framework/python"))
from cross_entropy_binding_kit import TOLERANCE, distance, raises  # noqa: E402
from cross_entropy_ranks_kit import RANKS, here, mesh, spawn  # noqa: E402
from vramscope import cross_entropy_parts as parts  # noqa: E402
from vramscope._cross_entropy_library import EXCHANGE, F32_ACCUMULATE, F32_LOGITS, FINISH, MODES, START, Options, library_for, on, problem  # noqa: E402
from vramscope.cross_entropy import check, linear_cross_entropy, linear_log_probability  # noqa: E402

TOKENS, HIDDEN = 14, 24
INPUT = 2  # of enum lce_exchange_step


class Case:
    """The same numbers in all processes; this one has the classes from `begin` to `end`.

    CUT: how many the first one has, of which the others have equal shares of what is left."""

    def __init__(self, vocab=42, cut=None, dtype=torch.float32, biased=False, ignored=0.3, scale=0.3, tokens=TOKENS):
        random = torch.Generator().manual_seed(5)
        rank, cut = dist.get_rank(), vocab // RANKS if cut is None else cut
        edges = [0, *(cut + (vocab - cut) * i // (RANKS - 1) for i in range(RANKS))]
        self.vocab, self.begin, self.end = vocab, edges[rank], edges[rank + 1]
        self.x = torch.randn(2, tokens, HIDDEN, generator=random).to(dtype)
        self.w = (torch.randn(vocab, HIDDEN, generator=random) * scale).to(dtype)
        self.b = torch.randn(vocab, generator=random).to(dtype) if biased else None
        self.y = torch.randint(vocab, (2, tokens), generator=random)
        self.y[torch.rand(2, tokens, generator=random) < ignored] = -100
        self.ups = torch.randn(2, 2, tokens, generator=random)
        mine = lambda t: None if t is None else t[self.begin : self.end].clone().to(here()).requires_grad_()
        self.input, self.weight, self.bias, self.labels = self.x.clone().to(here()).requires_grad_(), mine(self.w), mine(self.b), self.y.clone().to(here())

    def call(self, function=linear_cross_entropy, **options):
        return function(self.input, self.weight, self.labels, self.bias, group=dist.group.WORLD, vocab_range=(self.begin, self.vocab), **options)

    def exact(self, temperature=1.0, softcap=0.0, z_loss=0.0, class_weights=None, **options):
        """(loss, entropies) in double precision, and the leaves."""
        self.leaves = [None if t is None else t.double().requires_grad_() for t in (self.x, self.w, self.b)]
        z = F.linear(self.leaves[0].flatten(0, 1), *self.leaves[1:])
        z = (softcap * torch.tanh(z / softcap) if softcap else z) / temperature
        y, log_p = self.y.flatten(), F.log_softmax(z, 1)
        counts, kind = y != -100, options.get("reduction", "mean")
        loss = F.cross_entropy(z, y, None if class_weights is None else class_weights.double().cpu(), **options)
        squares = torch.where(counts, z_loss * z.logsumexp(1) ** 2, 0.0)
        loss = loss + (squares if kind == "none" else squares.sum() / (counts.sum() if kind == "mean" else 1))
        entropies = torch.where(counts, -(log_p.exp() * log_p).sum(1), 0.0)
        return loss.reshape(self.y.shape) if kind == "none" else loss, entropies.reshape(self.y.shape)

    def agree(self, what, limit):
        part = slice(self.begin, self.end)
        x, w, b = self.leaves
        pairs = [("dinput", self.input, x.grad), ("dweight", self.weight, w.grad[part])]
        if b is not None:
            pairs.append(("dbias", self.bias, b.grad[part]))
        for name, leaf, want in pairs:
            error = distance(leaf.grad, want)
            assert leaf.grad.dtype == leaf.dtype and error < limit, f"{what}: {name} is off by {error:.1e}"


def one(what, limit=2e-5, dtype=torch.float32, cut=None, biased=False, entropy=True, tokens=TOKENS, ours=(), **options):
    case = Case(dtype=dtype, cut=cut, biased=biased, tokens=tokens)
    got, want = case.call(return_entropy=entropy, **options, **dict(ours)), case.exact(**options)
    loss, entropies = got if entropy else (got, None)
    assert distance(loss, want[0].detach()) < limit, f"{what}: the loss is off by {distance(loss, want[0].detach()):.1e}"
    if entropy:
        assert distance(entropies, want[1].detach()) < limit, f"{what}: the entropies are off"
    total, exact = ((a * case.ups[0].to(a.device) if a.dim() else a * 3).sum() for a in (loss, want[0]))
    if entropy:
        total, exact = total + (entropies * case.ups[1].to(total.device)).sum(), exact + (want[1] * case.ups[1]).sum()
    total.backward()
    exact.backward()
    case.agree(what, limit)


def test_every_option_over_several_ranks():
    weights = torch.rand(42, generator=torch.Generator().manual_seed(9)).to(here()) + 0.1
    axes = itertools.product(("mean", "sum", "none"), (0.0, 0.2), (None, weights), ((0.0, 1.0), (3.0, 0.7)), (0.0, 0.01), (False, True))
    for reduction, smoothing, class_weights, (softcap, temperature), z_loss, entropy in axes:
        options = dict(reduction=reduction, label_smoothing=smoothing, class_weights=class_weights, softcap=softcap, temperature=temperature, z_loss=z_loss)
        one(str(options), biased=z_loss > 0, entropy=entropy, **options)
    check()


def test_every_type_and_parts_of_any_size():
    for dtype, cut, entropy in itertools.product(TOLERANCE, (1, 20, 43 - RANKS), (False, True)):
        one(f"{dtype}, {cut} of 42", 2 * TOLERANCE[dtype], dtype, cut, biased=True, entropy=entropy)


class Watched:
    """Notes what the library asks the exchange for, in this process."""

    def __enter__(self):
        self.steps, self.was, noted = [], parts._Exchange.step, self
        parts._Exchange.step = lambda self, *step: (noted.steps.append(step), noted.was(self, *step))[1]
        return self.steps

    def __exit__(self, *_):
        parts._Exchange.step = self.was


def test_all_ranks_have_the_same_chunks_with_an_exchange_in_each():
    was, parts.MOST_CHUNK = parts.MOST_CHUNK, 64
    try:
        same_chunks()
    finally:
        parts.MOST_CHUNK = was


def same_chunks():  # of 280 tokens
    for reduction, cut in itertools.product(("mean", "sum"), (None, 1, 43 - RANKS)):
        with Watched() as steps:
            one(f"{reduction}, cut {cut}", biased=True, entropy=False, tokens=140, cut=cut, reduction=reduction)
        asked = [step for step in steps if step[0] != INPUT]
        counted = sum(count for step, _, count in asked if step == START)
        chunks = [(first, min(64, counted - first)) for first in range(0, counted, 64)]
        assert len(chunks) > 2 and asked == [(step, *chunk) for chunk in chunks for step in (START, FINISH)], steps
    check()


def test_without_gradients_of_the_loss_there_are_two_runs():
    case = Case(tokens=140)
    with Watched() as steps:
        case.call(reduction="none")
        with torch.no_grad():
            case.call()
        assert not steps
        case.call()
        assert len(steps) == 3, steps


def test_promised_losses_of_single_tokens_and_entropies_are_one_run_of_three_products():
    for dtype, reduction, entropy in itertools.product(TOLERANCE, ("mean", "none"), (False, True)):
        case = Case(dtype=dtype, biased=entropy)
        ups = [case.ups[0] if reduction == "none" else torch.tensor(2.0), case.ups[1]]
        promised = {"upstream": ups[0].to(here()), **({"entropy_upstream": ups[1].to(here()), "return_entropy": True} if entropy else {})}
        with Watched() as steps:
            got = case.call(reduction=reduction, temperature=0.7, **promised)
            loss, entropies = got if entropy else (got, None)
            total = (loss * ups[0].to(here())).sum()
            (total + (entropies * ups[1].to(here())).sum() if entropy else total).backward()
        assert [step for step, *_ in steps] == [START, FINISH, INPUT], steps
        want = case.exact(temperature=0.7, reduction=reduction)
        ((want[0] * ups[0]).sum() + entropy * (want[1] * ups[1]).sum()).backward()
        what, limit = f"promised, {dtype}, {reduction}, {entropy}", 2 * TOLERANCE[dtype]
        assert distance(loss, want[0].detach()) < limit and (not entropy or distance(entropies, want[1].detach()) < limit), what
        case.agree(what, limit)
    check()


def test_entropies_of_parts_that_are_only_looked_at_cost_no_product():
    case = Case()
    with Watched() as steps:
        loss, entropies = case.call(return_entropy=True, entropy_upstream=0)
        (3 * loss).backward()
    assert len(steps) == 3, steps
    want = case.exact()
    (3 * want[0]).backward()
    assert distance(entropies, want[1].detach()) < 2e-5
    case.agree("looked at", 2e-5)
    case.call(return_entropy=True, entropy_upstream=0)[1].sum().backward()
    raises(ValueError, "promised `upstream`", check)


def test_the_chunk_keeps_to_the_budget():
    """What every rank can know of the chunk is enough: the library's own plan refuses none of these."""
    sizes = itertools.product((1, 63, 500, 5003), (8, 1000), (1, 63, 5000, 64128), (None, 450 << 20, 1 << 30), (0, F32_LOGITS, F32_ACCUMULATE), TOLERANCE)
    for tokens, hidden, classes, budget, flags, dtype in sizes:
        options = Options("mean", -100, 0.0, 0.0, 0.0, 1.0, 0, "auto", budget or 0, flags, dtype)
        chunk = parts.chunk_for(tokens, hidden, classes, dtype, options, True, here().type == "cuda")
        assert 0 < chunk <= min(tokens, 2048)
        if budget:
            assert planned(options, dtype, tokens, hidden, classes, chunk) <= budget


def planned(options, dtype, tokens, hidden, classes, chunk):
    """The bytes of workspace of one of two equal parts."""
    fields = problem(15, options, dtype, torch.int64, tokens, (classes, hidden), (hidden,) * 3, 0.0)
    fields += ("flags", options.flags | EXCHANGE), ("parts", 2), ("vocab_begin", 0), ("vocab_total", 2 * classes)
    with on(here()):
        return library_for(here()).plan(fields, MODES["auto"], options.budget, chunk).info.workspace_size


def test_all_ranks_have_the_same_bits():
    loss, entropy = Case(vocab=500).call(reduction="none", return_entropy=True)
    for tensor in (loss, entropy):
        others = [torch.empty_like(tensor.cpu()) for _ in range(RANKS)]
        dist.all_gather_object(others, tensor.detach().cpu())
        assert all(torch.equal(other, others[0]) for other in others)


def test_log_probabilities_of_parts():
    case = Case(biased=True)
    log_p, entropy = case.call(linear_log_probability, temperature=0.8, return_entropy=True)
    loss, want = case.exact(temperature=0.8, reduction="none")
    (log_p.exp() - 0.1 * entropy).sum().backward()
    counts = (case.y != -100)
    ((-loss).exp() - 0.1 * want).sum().backward()
    assert distance(-log_p, loss.detach()) < 2e-5 and distance(entropy, want.detach()) < 2e-5 and not log_p[~counts.to(log_p.device)].any()
    case.agree("log-probabilities", 2e-5)


def test_a_tensor_parallel_model_trains_as_one_process_does():
    """Twenty steps of an output layer in halves beside the whole layer; equal parts need no vocab_range."""
    case = Case(vocab=22 * RANKS, ignored=0)
    whole = [t.double().requires_grad_() for t in (case.x, case.w)]
    for _ in range(20):
        loss = linear_cross_entropy(case.input, case.weight, case.labels, group=dist.group.WORLD)
        exact = F.cross_entropy(F.linear(*whole).flatten(0, 1), case.y.flatten())
        loss.backward()
        exact.backward()
        with torch.no_grad():
            for t in (case.input, case.weight, *whole):
                t -= 0.5 * t.grad
                t.grad = None
    assert abs(loss.item() - exact.item()) < 1e-4 * exact.item() and exact.item() < 3.5, (loss.item(), exact.item())
    assert distance(case.weight, whole[1].detach()[case.begin : case.end]) < 1e-5


def test_parts_that_do_not_make_up_the_vocabulary_are_noticed():
    case = Case()
    loss = linear_cross_entropy(case.input, case.weight, case.labels, group=dist.group.WORLD, vocab_range=(0, 42))
    assert bool(torch.isnan(loss)), loss
    raises(ValueError, "did not make up the vocabulary", check)
    case.labels[0, 3] = 42  # of no rank
    assert bool(torch.isnan(case.call(reduction="none")).sum() == 1)
    raises(ValueError, "a label was neither", check)


def test_what_cannot_be_is_refused_in_one_line():
    case = Case()
    for words, options in (
        ("class_weights is [21]; it must be of all classes, [42]", {"class_weights": torch.ones(21, device=here())}),
        ("group does not go with main_grad", {"main_grad": True}),
    ):
        raises(ValueError, words, case.call, **options)
    weight = distribute_tensor(case.w.to(here()), mesh(RANKS), [Shard(0)])
    raises(ValueError, "not a DTensor", linear_cross_entropy, case.input, weight, case.labels, group=dist.group.WORLD)


if __name__ == "__main__":
    spawn(__file__)
