"""cross_entropy_binding_kit.py - inputs, the reference in double precision, and comparisons for cross_entropy_binding.py."""
import sys
import traceback

import torch
import torch.nn.functional as F

DEVICE = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cpu")
TOLERANCE = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 6e-3}  # of a norm; half an ulp: 3e-8, 5e-4, 4e-3
torch.manual_seed(1)


def leaf(*shape, dtype=torch.float32, scale=1.0):
    return (torch.randn(*shape) * scale).to(DEVICE, dtype).requires_grad_()


def labels_for(*shape, vocab, ignored=0.0, dtype=torch.int64, ignore_index=-100):
    labels = torch.randint(vocab, shape)
    labels[torch.rand(shape) < ignored] = ignore_index
    return labels.to(DEVICE, dtype)


def reference(input, weight, labels, bias=None, upstream=None, z_loss=0.0, softcap=0.0, class_weights=None, **options):
    """PyTorch's loss in double precision on the same values, and the gradients: a list as `tensors` below."""
    x, w, b = (None if t is None else t.detach().double().cpu().requires_grad_() for t in (input, weight, bias))
    y = labels.reshape(-1).long().cpu()
    z = F.linear(x.reshape(-1, x.size(-1)), w, b)
    if softcap:
        z = softcap * torch.tanh(z / softcap)
    weights = None if class_weights is None else class_weights.double().cpu()
    loss = F.cross_entropy(z, y, weights, **options)
    if z_loss:
        squares = torch.where(y != options.get("ignore_index", -100), z_loss * torch.logsumexp(z, 1) ** 2, 0.0)
        count = (y != options.get("ignore_index", -100)).sum()
        kind = options.get("reduction", "mean")
        loss = loss + (squares if kind == "none" else squares.sum() / (count if kind == "mean" else 1))
    loss = loss.reshape(labels.shape) if loss.dim() else loss
    (loss * (1 if upstream is None else torch.as_tensor(upstream).double().cpu())).sum().backward()
    return [loss.detach(), x.grad, w.grad, None if b is None else b.grad]


def distance(got, want):
    got = got.detach().double().cpu()
    assert got.shape == want.shape, f"the shape is {list(got.shape)}, not {list(want.shape)}"
    return float((got - want.detach()).norm() / want.detach().norm().clamp_min(1e-30))


def close(got, want, dtype=torch.float32, what=""):
    for name, g, w in zip(("loss", "dinput", "dweight", "dbias"), got, want):
        assert (g is None) == (w is None), f"{what}: {name} is {'not ' if g is None else ''}there"
        if w is not None:
            error = distance(g, w)
            assert error <= TOLERANCE[torch.float32 if name == "loss" and dtype == torch.float32 else dtype], f"{what}: {name} is off by {error:.2e}"


def gradients(*tensors):
    return [None if t is None else t.grad for t in tensors]


def raises(kind, words, function, *args, lines=False, **options):
    try:
        function(*args, **options)
    except kind as error:
        assert words in str(error), f"the error says {str(error)!r}, not {words!r}"
        assert "\n" not in str(error) or lines or kind is RuntimeError, "the error has more than one line"
    else:
        raise AssertionError(f"no {kind.__name__} with {words!r}")


def main(tests, times=1):
    """Runs those of TESTS, the globals of a file, whose name has the pattern; those for a GPU only there.

    TIMES 2: all twice, with the same numbers, as a call like an earlier one takes a shorter way."""
    pattern, failed, count = sys.argv[2] if len(sys.argv) > 2 else "", 0, 0
    for turn in range(times):
        torch.manual_seed(1)
        for name, test in list(tests.items()):
            if not name.startswith("test_") or pattern not in name or "_gpu_" in name and DEVICE.type != "cuda":
                continue
            count += 1
            try:
                test()
                print("ok  ", name[5:].replace("_", " "), "again" * turn, flush=True)
            except Exception:
                failed += 1
                print("FAIL", name[5:].replace("_", " "), "again" * turn, traceback.format_exc(), sep="\n", flush=True)
    print(f"{DEVICE}, PyTorch {torch.__version__}: {count - failed} passed, {failed} failed")
    return bool(failed) or not count
