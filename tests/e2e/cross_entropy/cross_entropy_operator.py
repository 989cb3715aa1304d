"""cross_entropy_operator.py [cpu|cuda] [PATTERN] - the loss as an operator: what torch.compile, torch.func, autocast and torch.library ask of one.
BINDING names the folder of the package vramscope.
"""
import itertools
import os
import sys

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.environ.get("BINDING") or os.path.join(HERE, "../../../shim/framework/python"))
import vramscope.cross_entropy as L  # noqa: E402
from cross_entropy_binding_kit import DEVICE, close, distance, gradients, labels_for, leaf, main, raises, reference  # noqa: E402
from vramscope.cross_entropy import linear_cross_entropy  # noqa: E402

EVERY = L.LOSS | L.GRAD_INPUT | L.GRAD_WEIGHT | L.GRAD_BIAS


def arguments(reduction, wants, dtype=torch.float32, biased=True, upstream=None, above=None, **tensors):
    x, w, b = leaf(6, 16, dtype=dtype), leaf(40, 16, dtype=dtype), leaf(40, dtype=dtype) if biased else None
    x, w = tensors.get("x", x), tensors.get("w", w)
    return x, w, b, labels_for(6, vocab=40, ignored=0.2), None, upstream, above, wants, *L.Options(reduction, -100, 0.1, 0.0, 3.0, 1.5, 0, "auto", 0, 0, dtype)


def test_torch_library_finds_nothing_wrong_with_the_operator():
    operator, check = torch.ops.vramscope.linear_cross_entropy.default, torch.library.opcheck
    for reduction in ("mean", "sum", "none"):
        check(operator, arguments(reduction, L.LOSS))
    for dtype, biased in ((torch.float32, True), (torch.bfloat16, False)):
        check(operator, arguments("sum", EVERY if biased else EVERY & ~L.GRAD_BIAS, dtype, biased))
    check(operator, arguments("mean", L.LOSS | L.GRAD_INPUT, w=torch.randn(40, 16, device=DEVICE)))
    check(operator, arguments("mean", EVERY & ~L.LOSS, upstream=torch.ones((), device=DEVICE)))
    check(operator, arguments("none", EVERY, upstream=torch.ones(6, device=DEVICE), x=leaf(6, 40)[:, 3:19]))
    check(operator, arguments("mean", L.LOSS | L.ENTROPY))
    check(operator, arguments("none", EVERY & ~L.LOSS, upstream=torch.ones(6, device=DEVICE), above=torch.ones(6, device=DEVICE)))
    kept = torch.ops.vramscope.linear_cross_entropy_kept_promise.default
    check(kept, (torch.ones((), device=DEVICE), torch.ones((), device=DEVICE)))


# ---- fp32 products ----


def ways_to_set_tf32():
    """What a program may say of fp32 products, and whether F.linear on a GPU then takes TF32 (None: PyTorch's versions differ)."""
    matmul = torch.backends.cuda.matmul
    yield "nothing", False, lambda: None
    yield "high", True, lambda: torch.set_float32_matmul_precision("high")
    yield "allow_tf32", True, lambda: setattr(matmul, "allow_tf32", True)
    if hasattr(torch.backends, "fp32_precision"):
        yield "fp32_precision of matmul", True, lambda: setattr(matmul, "fp32_precision", "tf32")
        yield "fp32_precision of everything", None, lambda: setattr(torch.backends, "fp32_precision", "tf32")
        yield "high, then not for CUDA", False, lambda: [torch.set_float32_matmul_precision("high"), setattr(matmul, "fp32_precision", "ieee")]


def test_fp32_products_are_as_exact_as_those_of_linear():
    """PyTorch's older questions (allow_tf32) raise an error where its newer settings (fp32_precision) were used."""
    x, w, labels = leaf(256, 128), leaf(1000, 128, scale=0.1), labels_for(256, vocab=1000)
    want, product = reference(x, w, labels), F.linear(x.detach().double(), w.detach().double()).cpu()
    for name, tf32, choose in ways_to_set_tf32():
        x.grad = w.grad = None
        try:
            choose()
            rounded = distance(F.linear(x, w), product)
            linear_cross_entropy(x, w, labels).backward()
        finally:
            if hasattr(torch.backends, "fp32_precision"):
                torch.backends.fp32_precision = torch.backends.cuda.matmul.fp32_precision = "none"
            torch.set_float32_matmul_precision("highest")
        off = max(distance(got, exact) for got, exact in zip(gradients(x, w), want[1:3]))
        figures = f"TF32 by {name}: F.linear is off by {rounded:.1e}, the gradients by {off:.1e}"
        print("     ", figures)
        if DEVICE.type == "cuda":
            assert (rounded > 2e-5) == (off > 2e-5) and tf32 in (None, rounded > 2e-5) and off < 3e-3, figures
        else:
            assert off < 2e-5, figures


# ---- torch.compile ----


def compiled(function, backend="aot_eager", **options):
    torch._dynamo.reset()
    return torch.compile(function, backend=backend, fullgraph=True, **options)


def step(x, w, b, y, **options):
    return linear_cross_entropy(x.tanh(), w, y, b, **options) * 0.5


def test_a_whole_step_is_one_graph():
    choices = {}, {"reduction": "sum", "softcap": 4.0}, {"reduction": "none"}, {"upstream": 0.5, "z_loss": 1e-3}, {"class_weights": torch.rand(40, device=DEVICE)}
    for backend, dtype, some in (("aot_eager", torch.float32, choices), ("inductor", torch.bfloat16, choices[:1])):
        for options in some:
            x, w, b, y = leaf(3, 5, 16, dtype=dtype), leaf(40, 16, dtype=dtype), leaf(40, dtype=dtype), labels_for(3, 5, vocab=40, ignored=0.2)
            loss = compiled(step, backend)(x, w, b, y, **options)
            loss.sum().backward()
            got = gradients(x, w, b)
            x.grad = w.grad = b.grad = None
            want = step(x, w, b, y, **options)
            want.sum().backward()
            close([loss, *got], [want.detach().double().cpu(), *(g.double().cpu() for g in gradients(x, w, b))], dtype, f"{backend} {options}")
    L.check()


def test_one_graph_serves_every_number_of_tokens():
    frames = []

    def count(module, inputs):
        frames.append(module)
        return module.forward

    w, b = leaf(40, 16), leaf(40)
    function = compiled(step, count, dynamic=True)
    for tokens in (5, 9, 33, 64):
        x, y = leaf(tokens, 16), labels_for(tokens, vocab=40)
        assert torch.allclose(function(x, w, b, y), step(x, w, b, y))
    assert len(frames) == 1, len(frames)


def test_autocast_and_no_grad_inside_a_compiled_function():
    x, w, b, y = leaf(9, 16), leaf(40, 16), leaf(40), labels_for(9, vocab=40)

    def function(x, w, b, y):
        with torch.autocast(DEVICE.type, torch.bfloat16):
            return linear_cross_entropy(x, w, y, b)

    loss = compiled(function)(x, w, b, y)
    loss.backward()
    got = gradients(x, w, b)
    close([loss, *got], reference(x.bfloat16(), w.bfloat16(), y, b.bfloat16()), torch.bfloat16)
    assert [g.dtype for g in got] == [torch.float32] * 3
    with torch.no_grad():
        assert torch.allclose(compiled(step)(x, w, b, y), step(x, w, b, y))


def test_the_graph_keeps_gradients_and_no_logits():
    """What a compiled forward keeps for its backward: nothing of tokens times classes."""
    kept = []
    x, w, y = leaf(64, 16), leaf(1000, 16), labels_for(64, vocab=1000)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(tuple(t.shape)) or t, lambda t: t):
        compiled(lambda x, w, y: linear_cross_entropy(x.tanh(), w, y))(x, w, y).backward()
    assert kept and (64, 1000) not in kept and max(map(len, kept)) <= 2, kept


def test_main_grad_breaks_the_graph_and_works():
    x, w, y = leaf(9, 16), leaf(40, 16), labels_for(9, vocab=40)
    w.main_grad = torch.zeros_like(w)
    function = lambda x, w, y: linear_cross_entropy(x.tanh(), w, y, main_grad=True) * 0.5
    raises(Exception, "linear_cross_entropy", compiled(function), x, w, y, lines=True)
    torch._dynamo.reset()
    torch.compile(function, backend="aot_eager")(x, w, y).backward()
    want = reference(x.tanh(), w, y)
    close([None, None, w.main_grad], [None, None, want[2] * 0.5])


def test_gpu_compiled_into_cuda_graphs():
    x, w, b = leaf(64, 32, dtype=torch.bfloat16), leaf(500, 32, dtype=torch.bfloat16), leaf(500, dtype=torch.bfloat16)
    y = labels_for(64, vocab=500)
    step(x, w, b, y).backward()
    want, function = gradients(x, w, b), compiled(step, "inductor", mode="reduce-overhead")
    for _ in range(5):
        x.grad = w.grad = b.grad = None
        torch.compiler.cudagraph_mark_step_begin()
        function(x, w, b, y).backward()
        close([None, *gradients(x, w, b)], [None, *(g.double().cpu() for g in want)], torch.bfloat16)


# ---- a call like an earlier one, which is not judged again ----


def judged_while(function):
    """How many calls were judged, and not taken for one like an earlier one, while FUNCTION ran."""
    count, check = [], L.check_tensors
    L.check_tensors = lambda *args: count.append(args) or check(*args)
    try:
        function()
    finally:
        L.check_tensors = check
    return len(count)


def test_a_call_like_an_earlier_one_is_not_judged_again():
    w, b, y = leaf(40, 16, dtype=torch.bfloat16), leaf(40, dtype=torch.bfloat16), labels_for(3, 5, vocab=40, ignored=0.2)
    first = leaf(3, 5, 16, dtype=torch.bfloat16).detach()
    for options in ({}, {"reduction": "none"}, {"softcap": 3.0, "label_smoothing": 0.1, "z_loss": 0.01, "temperature": 0.7, "f32_logits": True}):
        got = []
        for _ in range(2):
            x, w.grad, b.grad = first.clone().requires_grad_(), None, None
            call = lambda x=x: got.append(linear_cross_entropy(x, w, y, b, **options))
            judged = judged_while(call)
            (got[-1].sum() * 0.5).backward()
            got[-1] = [got[-1].detach(), x.grad, w.grad, b.grad]
        assert judged == 0 and all(torch.equal(*pair) for pair in zip(*got)), options


def test_a_call_that_differs_in_anything_that_matters_is_judged():
    x, w, b, y = leaf(9, 16), leaf(40, 16), leaf(40), labels_for(9, vocab=40)
    call = lambda x=x, w=w, y=y, b=b, **options: judged_while(lambda: linear_cross_entropy(x, w, y, b, **options))
    assert call() <= 1 and call() == 0
    for options in ({"label_smoothing": 0.25}, {"z_loss": 0.25}, {"softcap": 2.5}, {"temperature": 1.5}, {"ignore_index": 7}, {"reduction": "sum"}, {"mode": "lean"},
                    {"budget": 1 << 23}, {"max_counted": 9}, {"f32_logits": True}, {"f32_accumulate": True}, {"class_weights": torch.rand(40, device=DEVICE)},
                    {"b": None}, {"y": y.int()}, {"x": x.reshape(3, 3, 16), "y": y.reshape(3, 3)}, {"upstream": 1.0}, {"return_entropy": True}):  # fmt: skip
        assert call(**options) == 1, options
    with torch.autocast(DEVICE.type, torch.bfloat16):
        assert call() == 1 and linear_cross_entropy(x, w, y, b).dtype == torch.float32
        for t, dtype in zip((x, w, b), (torch.bfloat16,) * 3):
            assert call(**{"x" if t is x else "w" if t is w else "b": t.detach().to(dtype)}) == 1
    raises(ValueError, "of one type outside of autocast", linear_cross_entropy, x, w.bfloat16(), y, b)
    raises(ValueError, "labels are [8]", linear_cross_entropy, x, w, y[:8], b)
    raises(ValueError, "torch.func and forward-mode", torch.func.grad(lambda h: linear_cross_entropy(h, w, y, b)), x)
    raises(ValueError, "mode is 'slow'", linear_cross_entropy, x, w, y, b, mode="slow")
    raises(ValueError, "mode is 'slow'", linear_cross_entropy, x, w, y, b, mode="slow")


def test_a_call_like_an_earlier_one_looks_at_layouts_gradients_and_values():
    w, y = leaf(40, 16), labels_for(9, vocab=40)
    smoothing = torch.tensor(0.1)
    linear_cross_entropy(leaf(9, 16), w, y), linear_cross_entropy(leaf(9, 16), w, y, label_smoothing=smoothing)
    for x, weight in ((leaf(9, 48)[:, 8:24], w), (leaf(16, 9).t(), w), (leaf(1, 16).expand(9, 16), w), (leaf(9, 16), leaf(16, 40).t()), (leaf(9, 40)[:, 3:19], leaf(40, 20)[:, 1:17])):
        assert judged_while(lambda: linear_cross_entropy(x, weight, y)) == 0
        close([linear_cross_entropy(x, weight, y)], reference(x, weight, y)[:1], what=f"{x.stride()} {weight.stride()}")
    for x in (leaf(9, 16), leaf(9, 16).detach()):
        for weight in (w, w.detach()):
            loss = linear_cross_entropy(x, weight, y)
            assert loss.requires_grad == (x.requires_grad or weight.requires_grad)
            if loss.requires_grad:
                x.grad = weight.grad = None
                loss.backward()
                want = reference(x, weight, y)
                close([None, *gradients(x, weight)], [None, *(g if t.requires_grad else None for t, g in zip((x, weight), want[1:]))])
    smoothing.fill_(0.3)
    x = leaf(9, 16)
    close([linear_cross_entropy(x, w, y, label_smoothing=smoothing)], reference(x, w, y, label_smoothing=0.3)[:1])
    with torch.no_grad():
        assert not linear_cross_entropy(x, w, y).requires_grad
    assert (L.MOST_JUDGED >= len(L._judged)) and len(L._judged) > 0


# ---- refusals ----


def test_torch_func_is_refused_in_one_line():
    x, w, y = leaf(9, 16), leaf(40, 16), labels_for(9, vocab=40)
    for transform in (torch.func.grad, torch.func.jacrev, torch.func.hessian):
        raises(ValueError, "torch.func and forward-mode", transform(lambda h: linear_cross_entropy(h, w, y)), x)
    raises(ValueError, "torch.func and forward-mode", torch.vmap(lambda h: linear_cross_entropy(h, w, y[:1])), x[:, None])
    raises(ValueError, "torch.func and forward-mode", torch.func.jvp, lambda h: linear_cross_entropy(h, w, y), (x,), (x,))
    with torch.autograd.forward_ad.dual_level():
        raises(ValueError, "torch.func and forward-mode", linear_cross_entropy, torch.autograd.forward_ad.make_dual(x, x), w, y)
        assert linear_cross_entropy(x, w, y).item() > 0


def test_a_second_derivative_is_refused_in_one_line():
    x, w, y = leaf(9, 16), leaf(40, 16), labels_for(9, vocab=40)
    for options in ({}, {"reduction": "none"}, {"upstream": 1.0}):
        loss = linear_cross_entropy(x, w, y, **options).sum()
        raises(L.Error, "cannot be differentiated twice", torch.autograd.grad, loss, (x, w), create_graph=True)


# ---- types ----


def test_autocast_takes_the_types_that_linear_and_cross_entropy_take():
    y = labels_for(9, vocab=40)
    kinds = (torch.float32, torch.bfloat16, torch.float16)
    for input, weight, bias, auto in itertools.product(kinds, kinds, kinds, (torch.bfloat16, torch.float16)):
        x, w, b = leaf(9, 16, dtype=input), leaf(40, 16, dtype=weight), leaf(40, dtype=bias)
        with torch.autocast(DEVICE.type, auto):
            loss, want = linear_cross_entropy(x, w, y, b), F.cross_entropy(F.linear(x, w, b), y)
        assert loss.dtype == want.dtype == torch.float32
        loss.backward()
        got = gradients(x, w, b)
        assert [g.dtype for g in got] == [input, weight, bias]
        for g, exact in zip((loss, *got), reference(x.to(auto), w.to(auto), y, b.to(auto))):
            assert distance(g, exact) < 1.2e-2, f"{input} {weight} {bias} {auto}"  # rounded to autocast's type and to its own
    with torch.autocast(DEVICE.type, torch.bfloat16):
        raises(ValueError, "input is torch.float64; it must be", linear_cross_entropy, leaf(9, 16, dtype=torch.float64), leaf(40, 16), y)
    with torch.autocast(DEVICE.type, torch.bfloat16, enabled=False):
        raises(ValueError, "of one type outside of autocast", linear_cross_entropy, leaf(9, 16), leaf(40, 16, dtype=torch.bfloat16), y)


def test_the_dispatcher_is_left_out_exactly_where_nobody_looks_at_operators():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            names.append(str(operator))
            return operator(*args, **(kwargs or {}))

    class Mine(torch.Tensor):
        pass

    x, w, y, got = leaf(9, 16), leaf(40, 16), labels_for(9, vocab=40), []
    for reduction, promise in itertools.product(("mean", "none"), (None, 0.5)):
        for name in ("directly", "a mode", "a kind of tensor"):
            x.grad, w.grad, names = None, None, []
            with Seen() if name == "a mode" else torch.enable_grad():
                loss = linear_cross_entropy(x, w.as_subclass(Mine) if name == "a kind of tensor" else w, y, reduction=reduction, upstream=promise)
                (loss * 0.5).sum().backward()
            made = loss.grad_fn if reduction == "mean" else loss.grad_fn.next_functions[0][0]
            assert (made.name() == "LinearCrossEntropyBackward") == (name == "directly"), (name, made.name())
            assert (name == "a mode") == any("vramscope.linear_cross_entropy." in seen for seen in names), names
            got.append([t.as_subclass(torch.Tensor) for t in (loss.detach(), x.grad, w.grad)])
        assert all(torch.equal(a, b) for other in got[1:] for a, b in zip(got[0], other)), (reduction, promise)
        got.clear()


def test_fake_tensors_run_it_without_the_library():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x, w = torch.empty(5, 7, 16, device=DEVICE, requires_grad=True), torch.empty(40, 16, device=DEVICE, requires_grad=True)
        y = torch.empty(5, 7, dtype=torch.int64, device=DEVICE)
        for reduction, shape in (("mean", ()), ("none", (5, 7))):
            loss = linear_cross_entropy(x, w, y, reduction=reduction)
            loss.sum().backward()
            assert loss.shape == shape and loss.dtype == torch.float32 and w.grad.shape == w.shape


if __name__ == "__main__":
    sys.exit(main(globals()))
