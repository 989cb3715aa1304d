"""cross_entropy_binding.py [cpu|cuda] [PATTERN] - vramscope.linear_cross_entropy is F.cross_entropy for autograd: losses and gradients against
PyTorch in double precision, and the manners that people expect of a function.  BINDING names its folder.
"""
import itertools
import os
import runpy
import shutil
import sys
import tempfile
import threading
import traceback

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.environ.get("BINDING") or os.path.join(HERE, "../../../shim/framework/python"))
import vramscope.cross_entropy as L  # noqa: E402
import vramscope._cross_entropy_library as library_of  # noqa: E402
from cross_entropy_binding_kit import DEVICE, TOLERANCE, close, distance, gradients, labels_for, leaf, main, raises, reference  # noqa: E402
from vramscope.cross_entropy import linear_cross_entropy  # noqa: E402


# ---- values ----


def case(dtype, options, label_dtype=torch.int64, shape=(2, 7), hidden=24, vocab=41, biased=True, upstream=None):
    x, w, b = leaf(*shape, hidden, dtype=dtype), leaf(vocab, hidden, dtype=dtype, scale=0.3), leaf(vocab, dtype=dtype)
    b = b if biased else None
    y = labels_for(*shape, vocab=vocab, ignored=0.3, dtype=label_dtype, ignore_index=options.get("ignore_index", -100))
    own = {"mode", "budget", "f32_logits", "f32_accumulate", "max_counted"}
    loss = linear_cross_entropy(x, w, y, b, **options)
    assert loss.dtype == torch.float32
    if loss.dim():
        upstream = torch.randn(loss.shape, device=DEVICE) if upstream is None else upstream
        loss.backward(upstream)
    else:
        (loss * (1.0 if upstream is None else upstream)).backward()
    want = reference(x, w, y, b, upstream, **{k: v for k, v in options.items() if k not in own})
    close([loss, *gradients(x, w, b)], want, dtype, str(options))
    for t in (x, w) + ((b,) if biased else ()):
        assert t.grad.dtype == t.dtype


def test_every_combination_of_options_is_pytorch_in_double():
    weights = torch.rand(41, device=DEVICE) + 0.1
    axes = itertools.product(("mean", "sum", "none"), (0.0, 0.2), (None, weights), (-100, 5), (0.0, 3.0), (0.0, 0.01), (False, True))
    for reduction, smoothing, class_weights, ignore_index, softcap, z_loss, biased in axes:
        options = dict(reduction=reduction, label_smoothing=smoothing, class_weights=class_weights, ignore_index=ignore_index,
                       softcap=softcap, z_loss=z_loss)  # fmt: skip
        case(torch.float32, options, biased=biased)


def test_every_type_mode_and_flag():
    for dtype, label_dtype in itertools.product(TOLERANCE, (torch.int64, torch.int32)):
        for mode, accumulate in itertools.product(library_of.MODES, (False, True)):
            case(dtype, dict(mode=mode, f32_accumulate=accumulate), label_dtype)
        case(dtype, dict(max_counted=14), label_dtype)
        case(dtype, dict(budget=64 << 20), label_dtype)


def peaked(dtype, **options):
    """The input's gradient and how far it is off where the label has nearly all the probability."""
    x, w = leaf(64, 64, dtype=dtype), leaf(500, 64, dtype=dtype, scale=0.5)
    y = F.linear(x, w).argmax(1)
    linear_cross_entropy(x, w, y, **options).backward()
    return distance(x.grad, reference(x, w, y)[1])


def test_logits_in_fp32_are_exact_where_the_softmax_is_peaked():
    case(torch.float32, dict(f32_logits=True))
    for dtype in (torch.bfloat16, torch.float16):
        case(dtype, dict(f32_logits=True))
    rounded, wide = peaked(torch.bfloat16), peaked(torch.bfloat16, f32_logits=True)
    assert wide < 4e-3 < rounded, (wide, rounded)


def test_gradients_are_finite_differences_of_the_loss():
    x, w, b, y = leaf(6, 16), leaf(33, 16), leaf(33), labels_for(6, vocab=33)
    options = dict(label_smoothing=0.1, z_loss=0.02, softcap=5.0)
    linear_cross_entropy(x, w, y, b, **options).backward()
    for tensor in (x, w, b):
        direction = torch.randn_like(tensor)
        direction /= direction.norm()
        values = []
        for sign in (1, -1):
            moved = [t + sign * 1e-2 * direction if t is tensor else t for t in (x, w, b)]
            values.append(linear_cross_entropy(moved[0].detach(), moved[1].detach(), y, moved[2].detach(), **options).item())
        slope, expected = (values[0] - values[1]) / 2e-2, float((tensor.grad * direction).sum())
        assert abs(slope - expected) < 1e-4 + 2e-3 * abs(expected), f"slope {slope}, gradient {expected}"


def test_shapes_of_input_and_loss():
    w = leaf(50, 16)
    for shape in ((), (1,), (9,), (3, 4), (2, 3, 4), (0,), (2, 0)):
        x, y = leaf(*shape, 16), labels_for(*shape, vocab=50)
        loss = linear_cross_entropy(x, w, y, reduction="none")
        assert loss.shape == y.shape, f"{shape}: {loss.shape}"
        loss.sum().backward()
        assert x.grad.shape == x.shape
        if y.numel():
            mean = linear_cross_entropy(x, w, y)
            assert mean.shape == () and torch.allclose(mean, loss.mean(), rtol=1e-5)


def test_nothing_counted_is_as_in_pytorch():
    for shape, reduction in itertools.product(((4,), (0,)), ("mean", "sum", "none")):
        x, w, y = leaf(*shape, 16), leaf(50, 16), torch.full(shape, -100, device=DEVICE)
        loss = linear_cross_entropy(x, w, y, reduction=reduction)
        want = F.cross_entropy(F.linear(x, w), y, reduction=reduction)
        assert torch.equal(torch.isnan(loss), torch.isnan(want)) and torch.equal(loss.nan_to_num(), want.nan_to_num()), (loss, want)
        loss.sum().backward()
        if reduction != "mean":
            assert not x.grad.any() and not w.grad.any()


# ---- autograd's manners ----


def test_what_comes_from_above_is_multiplied_in_fp32():
    """0.3 has 2e-3 less in bf16: a product that rounds it first would show."""
    for dtype in TOLERANCE:
        x, w, y = leaf(64, 32, dtype=dtype), leaf(100, 32, dtype=dtype), labels_for(64, vocab=100)
        linear_cross_entropy(x, w, y).backward()
        plain = [t.grad.clone() for t in (x, w)]
        x.grad = w.grad = None
        (linear_cross_entropy(x, w, y) * 0.2512).backward()
        for t, once in zip((x, w), plain):
            assert torch.equal(t.grad, (once.float() * 0.2512).to(dtype)), dtype


def test_two_losses_of_one_weight_add_up():
    x, w, y = leaf(12, 16), leaf(50, 16), labels_for(12, vocab=50)
    (linear_cross_entropy(x[:6], w, y[:6]) * 0.25 + linear_cross_entropy(x[6:], w, y[6:]) * 0.75).backward()
    got = gradients(x, w)
    x.grad = w.grad = None
    (F.cross_entropy(F.linear(x[:6], w), y[:6]) * 0.25 + F.cross_entropy(F.linear(x[6:], w), y[6:]) * 0.75).backward()
    close([None, *got], [None] + [g.double().cpu() for g in gradients(x, w)])


def test_tied_weights_get_both_gradients():
    table, ids, y = leaf(50, 16), labels_for(3, 4, vocab=50), labels_for(3, 4, vocab=50)
    linear_cross_entropy(F.embedding(ids, table).tanh(), table, y).backward()
    got, table.grad = table.grad, None
    F.cross_entropy(F.linear(F.embedding(ids, table).tanh(), table).flatten(0, 1), y.flatten()).backward()
    close([got], [table.grad.double().cpu()])


def test_backward_twice_with_retain_graph_adds_up():
    for reduction, promise in itertools.product(("mean", "none"), (None, 1.0)):
        x, w, y = leaf(5, 16), leaf(50, 16), labels_for(5, vocab=50)
        loss = linear_cross_entropy(x, w, y, reduction=reduction, upstream=promise).sum()
        loss.backward(retain_graph=True)
        once = [g.clone() for g in gradients(x, w)]
        loss.backward()
        for t, g in zip((x, w), once):
            assert torch.allclose(t.grad, 2 * g), reduction
        raises(RuntimeError, "second time", loss.backward)


def test_differentiating_twice_is_refused():
    for reduction in ("sum", "none"):
        x, w, y = leaf(5, 16), leaf(50, 16), labels_for(5, vocab=50)
        loss = linear_cross_entropy(x, w, y, reduction=reduction).sum()
        raises(L.Error, "cannot be differentiated twice", torch.autograd.grad, loss, x, create_graph=True)


def wants_of(function):
    """What the library was asked for while FUNCTION ran: the `wants` of each call."""
    asked, run = [], L.run
    L.run = lambda wants, *rest: asked.append(wants) or run(wants, *rest)
    try:
        function()
    finally:
        L.run = run
    return asked


def test_only_what_is_needed_is_computed():
    x, w, y = leaf(5, 16), leaf(50, 16), labels_for(5, vocab=50)
    every = L.LOSS | L.GRAD_INPUT | L.GRAD_WEIGHT
    assert wants_of(lambda: linear_cross_entropy(x, w, y).backward()) == [every]
    assert wants_of(lambda: linear_cross_entropy(x, w.detach(), y)) == [L.LOSS | L.GRAD_INPUT]
    assert wants_of(lambda: linear_cross_entropy(x.detach(), w, y)) == [L.LOSS | L.GRAD_WEIGHT]
    assert wants_of(lambda: linear_cross_entropy(x.detach(), w.detach(), y)) == [L.LOSS]
    with torch.no_grad():
        assert wants_of(lambda: linear_cross_entropy(x, w, y, reduction="none")) == [L.LOSS]
        assert wants_of(lambda: linear_cross_entropy(x, w, y)) == [L.LOSS]
    with torch.inference_mode():
        assert not linear_cross_entropy(x, w, y).requires_grad
    later = wants_of(lambda: linear_cross_entropy(x, w, y, reduction="none").sum().backward())
    assert later == [L.LOSS, every & ~L.LOSS], later


def test_a_weight_changed_before_a_later_backward_is_noticed():
    x, w, y = leaf(5, 16), leaf(50, 16), labels_for(5, vocab=50)
    loss = linear_cross_entropy(x, w, y, reduction="none").sum()
    with torch.no_grad():
        w.mul_(2)
    raises(RuntimeError, "modified by an inplace operation", loss.backward)


def test_the_gradient_is_handed_over_without_a_copy():
    x, w, y = leaf(64, 32, dtype=torch.bfloat16), leaf(100, 32, dtype=torch.bfloat16), labels_for(64, vocab=100)
    made, run = [], L.run
    L.run = lambda *args: made.append(run(*args)) or made[-1]
    try:
        loss = linear_cross_entropy(x, w, y)
    finally:
        L.run = run
    addresses = [t.data_ptr() for t in made.pop()[1:3]]
    loss.backward()
    assert [x.grad.data_ptr(), w.grad.data_ptr()] == addresses


def test_checkpointing_either_way():
    for reentrant in (False, True):
        x, w, y = leaf(5, 16), leaf(50, 16), labels_for(5, vocab=50)
        checkpoint(lambda h: linear_cross_entropy(h.tanh(), w, y), x, use_reentrant=reentrant).backward()
        got = gradients(x, w)
        x.grad = w.grad = None
        F.cross_entropy(F.linear(x.tanh(), w), y).backward()
        close([None, *got], [None] + [g.double().cpu() for g in gradients(x, w)])


def test_compiled_models_run_around_it():
    x, w, y = leaf(5, 16), leaf(50, 16), labels_for(5, vocab=50)
    compiled = torch.compile(lambda h: linear_cross_entropy(h.tanh(), w, y) * 2, backend="eager")
    loss = compiled(x)
    loss.backward()
    close([loss, x.grad], [t.double().cpu() for t in (lambda h: (F.cross_entropy(F.linear(h, w), y) * 2,))(x.detach().tanh())] + [x.grad.double().cpu()])


# ---- main_grad and promises ----


def test_main_grad_is_added_to_and_grad_left_alone():
    for dtype, main, promise in itertools.product((torch.float32, torch.bfloat16), (torch.float32, None), (None, 0.5)):
        x, w, b = leaf(5, 16, dtype=dtype), leaf(50, 16, dtype=dtype), leaf(50, dtype=dtype)
        y = labels_for(5, vocab=50)
        for t in (w, b):
            t.main_grad = torch.ones_like(t, dtype=main or dtype)
        for _ in range(2):
            (linear_cross_entropy(x, w, y, b, main_grad=True, upstream=promise) * 0.5).backward()
        L.check()
        assert w.grad is None and b.grad is None
        want = reference(x, w, y, b, upstream=0.5)
        # of a sum of ones and a gradient the gradient's own error is not to be seen: take the ones off, allow for their rounding
        loose = TOLERANCE[dtype] if main == torch.float32 or dtype == torch.float32 else 0.2
        for got, grad in ((w.main_grad, want[2]), (b.main_grad, want[3])):
            assert distance(got.float() - 1, 2 * grad) < loose, (dtype, main, promise)
        close([None, x.grad / 2], [None, want[1]], dtype)


def test_a_promise_kept_gives_the_same_gradients():
    for reduction in ("mean", "none"):
        x, w, y = leaf(5, 16), leaf(50, 16), labels_for(5, vocab=50)
        up = torch.rand((5,) if reduction == "none" else (), device=DEVICE)
        linear_cross_entropy(x, w, y, reduction=reduction, upstream=up).backward(up)
        close([None, *gradients(x, w)], [None] + reference(x, w, y, upstream=up, reduction=reduction)[1:3])
        L.check()


def test_a_promise_broken_is_nan_and_an_error():
    for reduction in ("mean", "none"):
        x, w, y = leaf(5, 16), leaf(50, 16), labels_for(5, vocab=50)
        linear_cross_entropy(x, w, y, reduction=reduction, upstream=1.0).sum().mul(2).backward()
        assert torch.isnan(x.grad).all()
        raises(ValueError, "promised `upstream`", L.check)
        L.check()


def test_a_scaler_s_scale_keeps_small_fp16_gradients():
    x, w, y = leaf(4096, 16, dtype=torch.float16), leaf(2000, 16, dtype=torch.float16, scale=0.01), labels_for(4096, vocab=2000)
    scale = torch.tensor(65536.0, device=DEVICE)
    want = reference(x, w, y)
    (linear_cross_entropy(x, w, y, upstream=scale) * scale).backward()
    good = distance(x.grad.double() / 65536, want[1])
    x.grad = w.grad = None
    (linear_cross_entropy(x, w, y) * scale).backward()
    bad = distance(x.grad.double() / 65536, want[1])
    L.check()
    assert good < 2e-3 < bad, (good, bad)


# ---- the library's place ----


def test_the_library_is_found_in_an_installed_tree_and_in_a_source_tree():
    named = os.environ.pop("LCE_LIBRARY", None)
    try:
        for python, lib in (("share/vramscope/python", "lib"), ("shim/framework/python", "build/release/lib")):
            with tempfile.TemporaryDirectory() as folder:
                module, library = os.path.join(folder, python, "vramscope/module.py"), os.path.join(folder, lib, "liblinear_cross_entropy.so")
                os.makedirs(os.path.dirname(module)), os.makedirs(os.path.dirname(library))
                shutil.copy(library_of.__file__, module)
                there = runpy.run_path(module)
                raises(RuntimeError, library, there["find"])
                open(library, "w").close()
                assert there["find"]() == library, there["find"]()
        os.environ["LCE_LIBRARY"] = "/nowhere.so"
        raises(RuntimeError, "is not at /nowhere.so: build it", there["find"])
    finally:
        os.environ.pop("LCE_LIBRARY", None)
        if named:
            os.environ["LCE_LIBRARY"] = named


# ---- types and layouts ----


def test_autocast_computes_in_its_type_and_gives_fp32_gradients():
    x, w, b, y = leaf(9, 16), leaf(50, 16), leaf(50), labels_for(9, vocab=50)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        loss = linear_cross_entropy(x, w, y, b)
    loss.backward()
    want = reference(x.bfloat16(), w.bfloat16(), y, b.bfloat16())
    close([loss, *gradients(x, w, b)], want, torch.bfloat16)
    assert w.grad.dtype == b.grad.dtype == x.grad.dtype == torch.float32
    rounded = w.grad.bfloat16().float()
    assert not torch.equal(rounded, w.grad), "the weight's gradient went through bf16"


def test_layouts_that_are_not_dense():
    y = labels_for(2, 5, vocab=50)
    wide, tall, deep = leaf(2, 5, 40), leaf(16, 50), leaf(2, 6, 16)
    every = leaf(60, 48)
    for name, x, w in (
        ("rows with a gap", wide[..., 8:24], leaf(50, 16)),
        ("rows that begin between 16 bytes", wide[..., 3:19], leaf(50, 16)),
        ("all but the last token of each sequence", deep[:, :-1], leaf(50, 16)),
        ("one row for all", leaf(1, 1, 16).expand(2, 5, 16), leaf(50, 16)),
        ("a transposed weight", leaf(2, 5, 16), tall.t()),
        ("a weight inside of another", leaf(2, 5, 16), every[5:55, 16:32]),
        ("a weight that begins between 16 bytes", leaf(2, 5, 16), every[5:55, 1:17]),
        ("a transposed input", leaf(5, 2, 16).transpose(0, 1), leaf(50, 16)),
        ("every other column", leaf(2, 5, 32)[..., ::2], leaf(50, 32)[:, ::2]),
    ):
        roots = [t for t in (wide, tall, deep, every) if t.grad is not None]
        for t in roots:
            t.grad = None
        x.retain_grad(), w.retain_grad()
        loss = linear_cross_entropy(x, w, y.t().contiguous().t())
        loss.backward()
        close([loss, x.grad, w.grad], reference(x, w, y)[:3], what=name)


def test_vectors_that_are_not_dense():
    x, w, wide, y = leaf(5, 16), leaf(50, 16), leaf(101), labels_for(10, vocab=50)[::2]
    weights = torch.rand(100, device=DEVICE)[::2] + 0.1
    for b in (wide[1:51], wide[:100:2]):
        b.retain_grad()
        x.grad = w.grad = None
        loss = linear_cross_entropy(x, w, y, b, class_weights=weights)
        loss.backward()
        close([loss, x.grad, w.grad, b.grad], reference(x, w, y, b, class_weights=weights))


def test_bits_are_the_same_each_time():
    x, w, y = leaf(300, 64, dtype=torch.bfloat16), leaf(1000, 64, dtype=torch.bfloat16), labels_for(300, vocab=1000)
    seen = set()
    for _ in range(3):
        x.grad = w.grad = None
        loss = linear_cross_entropy(x, w, y)
        loss.backward()
        seen.add((loss.item(), x.grad.double().sum().item(), w.grad.double().sum().item()))
    assert len(seen) == 1, seen


# ---- errors ----


def test_bad_arguments_say_what_to_do():
    x, w, y = leaf(5, 16), leaf(50, 16), labels_for(5, vocab=50)
    call = linear_cross_entropy
    raises(ValueError, "must be [..., H] and [V, H]", call, x, leaf(50, 17), y)
    raises(ValueError, "must be [5]", call, x, w, y[:4])
    raises(ValueError, "int64 or int32", call, x, w, y.to(torch.uint8))
    raises(ValueError, "of one type", call, x, w.bfloat16(), y)
    raises(ValueError, "float32, float16 or bfloat16", call, x.double(), w.double(), y)
    raises(ValueError, "must be [50]", call, x, w, y, leaf(49))
    raises(ValueError, "must be [50]", call, x, w, y, class_weights=torch.ones(3, device=DEVICE))
    raises(ValueError, "one of mean, sum, none", call, x, w, y, reduction="average")
    raises(ValueError, "one of auto, fast", call, x, w, y, mode="quick")
    raises(ValueError, "has no attribute main_grad", call, x, w, y, main_grad=True)
    raises(ValueError, "as the loss", call, x, w, y, upstream=torch.ones(2, device=DEVICE))
    raises(ValueError, "same device", call, x, w, y.to("meta"))
    raises(ValueError, "only cpu and cuda", call, x.to("meta"), w.to("meta"), y.to("meta"))
    raises(L.Error, "label_smoothing is 2", call, x, w, y, label_smoothing=2)
    raises(L.Error, "LCE_LEAN needs", call, x, w, y, budget=1)
    raises(L.Error, "max_counted is 9", call, x, w, y, max_counted=9)
    w.main_grad = torch.ones(50, 16, dtype=torch.float16, device=DEVICE)
    raises(ValueError, "must be float32 or", call, x, w, y, main_grad=True)


def test_labels_out_of_range_poison_their_token_and_are_told():
    x, w, y = leaf(5, 16), leaf(50, 16), labels_for(5, vocab=50)
    y[2] = 50
    loss = linear_cross_entropy(x, w, y, reduction="none")
    loss.sum().backward()
    assert torch.isnan(loss).tolist() == [False, False, True, False, False]
    assert torch.isnan(x.grad).all(1).tolist() == [False, False, True, False, False] and not torch.isnan(w.grad).any()
    raises(ValueError, "neither ignore_index nor in", L.check)
    L.check(DEVICE)
    linear_cross_entropy(x, w, labels_for(5, vocab=50), max_counted=3)
    raises(ValueError, "max_counted", L.check, DEVICE.type)


# ---- many plans, many threads ----


def test_old_plans_make_way_for_new_ones():
    w, most = leaf(50, 16), library_of.MOST_PLANS
    linear_cross_entropy(leaf(3, 16), w, labels_for(3, vocab=50))
    library = library_of._libraries[torch.device(DEVICE.type, 0 if DEVICE.type == "cuda" else None) if DEVICE.index is None else DEVICE]
    library_of.MOST_PLANS = len(library.plans)
    try:
        for n in range(200, 240):
            x, y = leaf(n, 16), labels_for(n, vocab=50)
            close([linear_cross_entropy(x, w, y)], [reference(x, w, y)[0]])
        assert len(library.plans) == library_of.MOST_PLANS
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
            linear_cross_entropy(leaf(333, 16), w, labels_for(333, vocab=50))
        assert len(library.retired) <= 1, len(library.retired)
    finally:
        library_of.MOST_PLANS = most


def test_threads_do_not_disturb_each_other():
    problems, bad = [], []
    for n in range(8):
        x, w, y = leaf(40 + n, 16), leaf(50, 16), labels_for(40 + n, vocab=50)
        problems.append((x, w, y, reference(x, w, y)[:3]))

    def work(x, w, y, want):
        try:
            for _ in range(10):
                x.grad = w.grad = None
                loss = linear_cross_entropy(x, w, y)
                loss.backward()
                close([loss, x.grad, w.grad], want)
        except BaseException:
            bad.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=p) for p in problems]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad, bad[0]


# ---- only on a GPU ----


def test_gpu_memory_is_the_workspace_and_the_gradients_and_goes_back():
    """In the bytes that are asked of PyTorch's allocator: what it hands out is more, by as much as 1 MiB a block that it
    does not split off.  Scalars are the loss, the promise and what compares them."""
    n, h, v, scalars = 2048, 512, 32000, 64
    x, w, y = leaf(n, h, dtype=torch.bfloat16), leaf(v, h, dtype=torch.bfloat16), labels_for(n, vocab=v)
    linear_cross_entropy(x, w, y).backward()
    x.grad = w.grad = None
    size, gradients = L.workspace_bytes(n, h, v), 2 * h * (n + v)
    asked = lambda which: torch.cuda.memory_stats()[f"requested_bytes.all.{which}"] - base
    for promise in (None, 1.0):
        base = 0
        base = asked("current")
        torch.cuda.reset_peak_memory_stats()
        loss = linear_cross_entropy(x, w, y, upstream=promise)
        peak, held = asked("peak") - gradients - size, asked("current") - gradients
        assert 4 <= peak <= scalars and 4 <= held <= scalars, (promise, size, peak, held)
        torch.cuda.reset_peak_memory_stats()
        loss.backward()
        peak = asked("peak") - gradients
        assert 4 <= peak <= scalars, (promise, "in backward", peak)
        del loss
        left = asked("current") - gradients
        assert 0 <= left <= scalars, (promise, "after backward, beside the gradients", left)
        x.grad = w.grad = None
        assert 0 <= asked("current") <= scalars, (promise, "in the end", asked("current"))


def test_gpu_streams_and_new_threads():
    x, w, y = leaf(512, 64, dtype=torch.bfloat16), leaf(5000, 64, dtype=torch.bfloat16), labels_for(512, vocab=5000)
    want, got = linear_cross_entropy(x, w, y).item(), []
    torch.cuda.synchronize()

    def work():
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                got.append(linear_cross_entropy(x, w, y).item())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == [want] * 60, (want, got[:3], len(got))


def test_gpu_does_not_wait():
    x, w, y = leaf(512, 64, dtype=torch.bfloat16), leaf(5000, 64, dtype=torch.bfloat16), labels_for(512, vocab=5000)
    linear_cross_entropy(x, w, y, upstream=1.0).backward()
    (linear_cross_entropy(x, w, y) * 0.5).backward()
    linear_cross_entropy(x, w, y, reduction="none").mean().backward()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        behind = torch.cuda.Event()
        torch.cuda._sleep(1_000_000_000)
        linear_cross_entropy(x, w, y, upstream=1.0).backward()
        (linear_cross_entropy(x, w, y) * 0.5).backward()
        linear_cross_entropy(x, w, y, reduction="none").mean().backward()
        behind.record()
        assert not behind.query(), "the call waited for the GPU"
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()


def replays(step):
    """What STEP gives alone, and what a graph of it gives after results were overwritten; as PyTorch's manual captures."""
    plain = [t.detach().clone() for t in step()]  # what keeps no graph alive, whose nodes belong to the stream they are of
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    for t in captured:
        t.detach().fill_(7)
    for _ in range(2):
        graph.replay()
    torch.cuda.synchronize()
    assert len(plain) == len(captured) and all(torch.equal(a, b) for a, b in zip(plain, captured))


def test_gpu_graph_replays_the_same_bits():
    x, w, y = leaf(512, 64, dtype=torch.bfloat16), leaf(5000, 64, dtype=torch.bfloat16), labels_for(512, vocab=5000)
    for options in ({}, {"upstream": 1.0}, {"z_loss": 1e-4, "label_smoothing": 0.1}):

        def step():
            loss = linear_cross_entropy(x, w, y, **options)
            return loss.detach(), *torch.autograd.grad(loss, (x, w))

        replays(step)
    L.check(DEVICE)


def test_gpu_graph_of_a_backward_and_of_later_gradients():
    x, w, y = leaf(512, 64, dtype=torch.bfloat16), leaf(5000, 64, dtype=torch.bfloat16), labels_for(512, vocab=5000)
    for reduction in ("mean", "none"):

        def step():
            x.grad = w.grad = None
            loss = linear_cross_entropy(x, w, y, reduction=reduction)
            loss.mean().backward()
            return loss.detach(), x.grad, w.grad

        replays(step)
    L.check(DEVICE)


if __name__ == "__main__":
    sys.exit(main(globals(), times=2))
