"""cross_entropy_policy.py [cpu|cuda] [PATTERN] - temperature, log-probabilities and entropies against PyTorch in double precision, in every regime of
the softmax.  BINDING names the folder of the package vramscope.
"""
import itertools
import os
import sys

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.environ.get("BINDING") or os.path.join(HERE, "../../../shim/framework/python"))
from cross_entropy_binding_kit import DEVICE, TOLERANCE, distance, labels_for, leaf, main, raises  # noqa: E402
from vramscope import cross_entropy  # noqa: E402
from vramscope.cross_entropy import check, linear_cross_entropy, linear_log_probability  # noqa: E402


def exact(x, w, y, b=None, temperature=1.0, softcap=0.0, ignore_index=-100):
    """(log-probabilities, entropies, the leaves) in double precision."""
    leaves = [None if t is None else t.detach().double().cpu().requires_grad_() for t in (x, w, b)]
    z = F.linear(leaves[0].reshape(-1, w.size(1)), *leaves[1:])
    z = (softcap * torch.tanh(z / softcap) if softcap else z) / temperature
    labels, log_p = y.reshape(-1).long().cpu(), F.log_softmax(z, 1)
    counts = labels != ignore_index
    picked = log_p.gather(1, torch.where(counts, labels, 0)[:, None])[:, 0]
    p_log_p = torch.where(log_p == -torch.inf, 0.0, log_p.exp() * log_p.masked_fill(log_p == -torch.inf, 0.0))
    return torch.where(counts, picked, 0.0).reshape(y.shape), torch.where(counts, -p_log_p.sum(1), 0.0).reshape(y.shape), leaves


def agree(what, got, want, limit):
    for name, g, w in zip(("log-probability", "entropy", "dinput", "dweight", "dbias"), got, want):
        if w is not None:
            assert bool(torch.isfinite(g).all()), f"{what}: {name} is not finite"
            error = distance(g, w)
            assert error <= limit, f"{what}: {name} is off by {error:.2e}, not at most {limit:.0e}"


def both(what, x, w, y, b=None, limit=2e-5, temperature=1.0, softcap=0.0, **options):
    """Log-probabilities and entropies, and the gradients of a random sum of both."""
    for t in (x, w, b):
        if t is not None:
            t.grad = None
    got = linear_log_probability(x, w, y, b, temperature=temperature, softcap=softcap, return_entropy=True, **options)
    want = exact(x, w, y, b, temperature, softcap, options.get("ignore_index", -100))
    ups = torch.randn(2, *y.shape)
    (got[0] * ups[0].to(DEVICE) + got[1] * ups[1].to(DEVICE)).sum().backward()
    (want[0] * ups[0] + want[1] * ups[1]).sum().backward()
    agree(what, [*got, *(None if t is None else t.grad for t in (x, w, b))], [*want[:2], *(None if t is None else t.grad for t in want[2])], limit)


def test_log_probabilities_and_entropies_with_every_option():
    for dtype, temperature, softcap, biased, mode in itertools.product(TOLERANCE, (1.0, 0.6), (0.0, 3.0), (False, True), ("fast", "lean")):
        x, w, b = leaf(2, 7, 24, dtype=dtype), leaf(41, 24, dtype=dtype, scale=0.3), leaf(41, dtype=dtype) if biased else None
        y = labels_for(2, 7, vocab=41, ignored=0.3, ignore_index=5)
        options = dict(temperature=temperature, softcap=softcap, ignore_index=5, mode=mode)
        both(f"{dtype} {options}", x, w, y, b, TOLERANCE[dtype], **options)
    check()


def test_a_loss_with_temperature_has_every_option_of_the_loss():
    weights = torch.rand(41, device=DEVICE) + 0.1
    for reduction, smoothing, class_weights, z_loss, entropy in itertools.product(("mean", "sum", "none"), (0.0, 0.2), (None, weights), (0.0, 0.01), (False, True)):
        x, w, b, y = leaf(14, 24), leaf(41, 24, scale=0.3), leaf(41), labels_for(14, vocab=41, ignored=0.3)
        got = linear_cross_entropy(x, w, y, b, reduction=reduction, label_smoothing=smoothing, class_weights=class_weights, z_loss=z_loss,
                                   temperature=1.7, return_entropy=entropy)  # fmt: skip
        loss, entropies = got if entropy else (got, None)
        leaves = [t.detach().double().cpu().requires_grad_() for t in (x, w, b)]
        z, counts = F.linear(*leaves) / 1.7, y.cpu() != -100
        want = F.cross_entropy(z, y.cpu(), None if class_weights is None else class_weights.double().cpu(), reduction=reduction, label_smoothing=smoothing)
        squares = torch.where(counts, z_loss * z.logsumexp(1) ** 2, 0.0)
        want = want + (squares if reduction == "none" else squares.sum() / (counts.sum() if reduction == "mean" else 1))
        total = want.sum()
        if entropy:
            exact_entropies = torch.where(counts, -(F.log_softmax(z, 1).exp() * F.log_softmax(z, 1)).sum(1), 0.0)
            total = total - 0.1 * exact_entropies.sum()
            assert distance(entropies, exact_entropies.detach()) < 2e-5
        total.backward()
        (loss.sum() - 0.1 * entropies.sum() if entropy else loss.sum()).backward()
        agree(f"{reduction} {smoothing} {z_loss} {entropy}", [loss, None, x.grad, w.grad, b.grad], [want.detach(), None, *(t.grad for t in leaves)], 2e-5)


def sharp(tokens, hidden, vocab, loss):
    """Inputs whose mean loss is LOSS: hidden states that point at their label's row of the weight."""
    w, y = torch.randn(vocab, hidden) * 0.3, torch.randint(vocab, (tokens,))
    noise, low, high = torch.randn(tokens, hidden) * 0.3, 0.0, 64.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if F.cross_entropy(F.linear((noise + middle * w[y]).double(), w.double()), y) > loss else (low, middle)
    return noise + high * w[y], w, y.to(DEVICE)


def test_every_regime_of_the_softmax():
    """Flat, peaked until the mean loss is a millionth, half of the classes masked, logits of 1e4."""
    for dtype, options, limit in ((torch.float32, {}, 1e-3), (torch.bfloat16, {"f32_logits": True}, 6e-3)):
        for loss in (1.0, 1e-2, 1e-4, 1e-6):
            x, w, y = sharp(40, 64, 1003, loss)
            both(f"loss {loss}, {dtype}", *(t.to(DEVICE, dtype).requires_grad_() for t in (x, w)), y, limit=limit, **options)
        x, w, y = leaf(40, 64, dtype=dtype), leaf(1003, 64, dtype=dtype, scale=0.3), labels_for(40, vocab=1003)
        mask = torch.zeros(1003, device=DEVICE, dtype=dtype)
        mask[torch.randperm(1003)[:500]] = -torch.inf
        mask[y] = 0
        got = linear_log_probability(x, w, y, mask, return_entropy=True, **options)
        want = exact(x, w, y, mask)
        (got[0] - got[1]).sum().backward()
        (want[0] - want[1]).sum().backward()
        agree(f"masked, {dtype}", [*got, x.grad, w.grad], [*want[:2], want[2][0].grad, want[2][1].grad], limit)
        x = leaf(40, 64, dtype=dtype, scale=1e3)
        got, want = linear_log_probability(x, w, y, return_entropy=True, **options), exact(x, w, y)
        assert distance(got[0], want[0].detach()) < 1e-5 and float((got[1].detach().cpu() - want[1].detach()).abs().max()) < 2e-2
        got[1].sum().backward()
        assert bool(torch.isfinite(x.grad).all())


def test_one_class_alone_is_certain():
    x, w, y = leaf(5, 8), leaf(1, 8), torch.zeros(5, dtype=torch.int64, device=DEVICE)
    log_p, entropy = linear_log_probability(x, w, y, return_entropy=True)
    (log_p + entropy).sum().backward()
    assert not log_p.any() and not entropy.any() and not x.grad.any() and not w.grad.any()


def test_equal_logits_have_the_entropy_of_their_number():
    x, w, y = torch.zeros(3, 8, device=DEVICE), leaf(1000, 8), labels_for(3, vocab=1000)
    log_p, entropy = linear_log_probability(x, w, y, temperature=0.1, return_entropy=True)
    want = torch.full((3,), 1000.0).log()
    assert torch.allclose(entropy.detach().cpu(), want, rtol=1e-6) and torch.allclose(-log_p.detach().cpu(), want, rtol=1e-6)


def test_a_clipped_policy_gradient_with_an_entropy_bonus():
    """PPO's loss: the gradient that autograd gets through both outputs."""
    x, w, y, old, gain = leaf(30, 16), leaf(60, 16), labels_for(30, vocab=60, ignored=0.2), torch.randn(30) * 0.1, torch.randn(30)

    def loss(log_p, entropy, device):
        ratio = (log_p - (log_p.detach() - old.to(device))).exp()
        clipped = ratio.clamp(0.9, 1.1)
        return -torch.minimum(ratio * gain.to(device), clipped * gain.to(device)).mean() - 0.01 * entropy.mean()

    got = loss(*linear_log_probability(x, w, y, temperature=0.8, return_entropy=True), DEVICE)
    log_p, entropy, leaves = exact(x, w, y, temperature=0.8)
    want = loss(log_p, entropy, "cpu")
    got.backward()
    want.backward()
    agree("PPO", [got, None, x.grad, w.grad], [want.detach(), None, leaves[0].grad, leaves[1].grad], 2e-5)


def test_each_output_alone_has_its_gradient():
    x, w, y = leaf(9, 16), leaf(30, 16), labels_for(9, vocab=30, ignored=0.3)
    for pick in (0, 1):
        x.grad = w.grad = None
        linear_log_probability(x, w, y, return_entropy=True)[pick].sum().backward()
        want = exact(x, w, y)
        want[pick].sum().backward()
        agree(f"output {pick}", [None, None, x.grad, w.grad], [None, None, want[2][0].grad, want[2][1].grad], 2e-5)
    loss, entropy = linear_cross_entropy(x, w, y, return_entropy=True)
    assert loss.dim() == 0 and entropy.shape == y.shape
    with torch.no_grad():
        assert torch.equal(linear_cross_entropy(x, w, y, return_entropy=True)[1], entropy.detach())


class Counted:
    """How often the library runs."""

    def __enter__(self):
        self.runs, self.was = 0, cross_entropy.run

        def run(*arguments, **named):
            self.runs += 1
            return self.was(*arguments, **named)

        cross_entropy.run = run
        return self

    def __exit__(self, *_):
        cross_entropy.run = self.was


def test_promised_gradients_of_both_take_one_run():
    """Log-probabilities and entropies in one run, where two are made without promises; entropies that are only looked at cost none."""
    for dtype, biased in itertools.product(TOLERANCE, (False, True)):
        x, w, b, y = leaf(14, 24, dtype=dtype), leaf(41, 24, dtype=dtype, scale=0.3), leaf(41, dtype=dtype) if biased else None, labels_for(14, vocab=41, ignored=0.3)
        for ups in (torch.randn(2, 14), torch.full((2, 14), -0.25), (torch.randn(14), torch.zeros(14))):
            x.grad = w.grad = None
            promised = [float(up[0]) if (up == up[0]).all() else up.to(DEVICE) for up in ups]
            with Counted() as counted:
                got = linear_log_probability(x, w, y, b, temperature=0.7, return_entropy=True, upstream=promised[0], entropy_upstream=promised[1])
                (got[0] * ups[0].to(DEVICE) + got[1] * ups[1].to(DEVICE)).sum().backward()
            assert counted.runs == 1, counted.runs
            want = exact(x, w, y, b, 0.7)
            (want[0] * ups[0] + want[1] * ups[1]).sum().backward()
            agree(f"promised, {dtype}", [*got, x.grad, w.grad], [*want[:2], want[2][0].grad, want[2][1].grad], TOLERANCE[dtype])
    check()


def test_entropies_that_are_only_looked_at_leave_the_mean_one_run():
    x, w, y = leaf(14, 24), leaf(41, 24, scale=0.3), labels_for(14, vocab=41, ignored=0.3)
    with Counted() as counted:
        loss, entropy = linear_cross_entropy(x, w, y, temperature=0.7, return_entropy=True, entropy_upstream=0)
        (3 * loss).backward()
    want = exact(x, w, y, temperature=0.7)
    (-3 * want[0].sum() / (y != -100).sum().cpu()).backward()
    assert counted.runs == 1, counted.runs
    agree("looked at", [None, entropy, x.grad, w.grad], [None, want[1], want[2][0].grad, want[2][1].grad], 2e-5)
    check()


def test_a_promise_for_entropies_that_is_broken_is_nan_and_an_error():
    x, w, y = leaf(9, 16), leaf(30, 16), labels_for(9, vocab=30)
    for options, total in (
        ({"entropy_upstream": 0}, lambda loss, entropy: loss.sum() + entropy.sum()),
        ({"entropy_upstream": 0}, lambda loss, entropy: entropy.sum()),
        ({"upstream": 1.0, "entropy_upstream": 0.5}, lambda loss, entropy: loss.sum() + entropy.sum()),
        ({"upstream": 1.0, "entropy_upstream": 0.5}, lambda loss, entropy: loss.sum()),
        ({"upstream": 1.0, "entropy_upstream": 0.5}, lambda loss, entropy: 0.5 * entropy.sum()),
    ):
        x.grad = w.grad = None
        total(*linear_cross_entropy(x, w, y, return_entropy=True, **options)).backward()
        assert bool(torch.isnan(x.grad).all()), options
        raises(ValueError, "promised `upstream`", check)
    x.grad = w.grad = None
    loss, entropy = linear_cross_entropy(x, w, y, return_entropy=True, entropy_upstream=0)
    (loss + 0 * entropy.sum()).backward()
    assert bool(torch.isfinite(x.grad).all())
    check()


def test_fp16_gradients_of_both_do_not_vanish():
    """The mean's small factors, and the entropy's own, of half precision."""
    for reduction in ("mean", "sum", "none"):
        x, w, y = leaf(200, 32, dtype=torch.float16), leaf(500, 32, dtype=torch.float16, scale=0.2), labels_for(200, vocab=500)
        loss, entropy = linear_cross_entropy(x, w, y, reduction=reduction, return_entropy=True)
        (loss.mean() - entropy.mean()).mul(256).backward()
        log_p, exact_entropy, leaves = exact(x, w, y)
        ((-log_p.sum() if reduction == "sum" else -log_p.mean()) - exact_entropy.mean()).mul(256).backward()
        agree(f"fp16, {reduction}", [None, None, x.grad, w.grad], [None, None, leaves[0].grad, leaves[1].grad], 3e-3)


def test_one_graph_with_torch_compile():
    def step(x, w, y):
        log_p, entropy = linear_log_probability(x.tanh(), w, y, temperature=0.7, return_entropy=True)
        return (log_p * 2 - entropy).sum()

    x, w, y = leaf(6, 16), leaf(40, 16), labels_for(6, vocab=40, ignored=0.2)
    torch.compile(step, backend="aot_eager", fullgraph=True)(x, w, y).backward()
    got = x.grad.clone(), w.grad.clone()
    x.grad = w.grad = None
    step(x, w, y).backward()
    assert all(torch.allclose(a, b, rtol=1e-6) for a, b in zip(got, (x.grad, w.grad)))


def test_what_cannot_be_is_refused_in_one_line():
    x, w, y = leaf(4, 8), leaf(20, 8), labels_for(4, vocab=20)
    for words, options in (
        ("temperature is 0", {"temperature": 0.0}),
        ("temperature is -1", {"temperature": -1.0}),
        ("temperature is inf", {"temperature": float("inf")}),
        ("mode naive is gone; use fast", {"mode": "naive"}),
        ("return_entropy does not go with main_grad", {"return_entropy": True, "main_grad": True}),
        ("give entropy_upstream, too", {"return_entropy": True, "upstream": 1.0}),
        ("give upstream, too", {"return_entropy": True, "entropy_upstream": 0.1}),
        ("and no return_entropy", {"entropy_upstream": 0.0}),
        ("entropy_upstream is [3] on", {"return_entropy": True, "upstream": 1.0, "entropy_upstream": torch.ones(3, device=DEVICE)}),
        ("no group", {"vocab_range": (0, 20)}),
    ):
        raises(ValueError, words, linear_cross_entropy, x, w, y, **options)
    raises(TypeError, "z_loss belongs to linear_cross_entropy", linear_log_probability, x, w, y, z_loss=0.1)


if __name__ == "__main__":
    sys.exit(main(globals()))
