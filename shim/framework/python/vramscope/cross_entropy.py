"""vramscope.cross_entropy - the loss of an output layer in PyTorch, without ever holding all the logits (liblinear_cross_entropy.so).

    from vramscope.cross_entropy import check, linear_cross_entropy

    loss = linear_cross_entropy(hidden, head.weight, labels)     # F.cross_entropy(F.linear(hidden, head.weight).float(), labels)
    loss.backward()

With reduction mean or sum, and with promised upstream gradients, the gradients are computed together with the loss, while a chunk's logits
are there, and kept; backward multiplies them in place by the upstream gradient.  With `none`, `main_grad` or entropies the backward
computes them, which takes the logits' product a second time.  Only check() waits for the GPU.

The work is an operator of PyTorch, torch.ops.vramscope.linear_cross_entropy, so that torch.compile has it in its graph without a break (but
for `main_grad`, which the operator does not have).  Where nobody looks at operators, it is called without PyTorch's dispatcher, which takes
longer than all the rest on the host.

A label out of range makes its token's loss and gradient NaN, and sets a flag on the device that check() reads.
"""

import torch
from torch.autograd import forward_ad

from ._cross_entropy_checks import check_choices, check_tensors, choices, compute_dtype, promised, refuse, refuse_transforms
from ._cross_entropy_library import (
    BROKEN_PROMISE, ENTROPY, GRAD_BIAS, GRAD_INPUT, GRAD_WEIGHT, LOSS, Error, Options, check, library_for, on, run, scale, workspace_size,
)  # fmt: skip

__all__ = ["linear_cross_entropy", "linear_log_probability", "check", "workspace_bytes", "Error"]

# ---- the operator: loss, dinput, dweight, dbias and entropies, an empty tensor for each that is not in `wants` ----

NAME = "vramscope::linear_cross_entropy"
SCHEMA = """linear_cross_entropy(Tensor input, Tensor weight, Tensor? bias, Tensor labels, Tensor? class_weights,
    Tensor? upstream, Tensor? above, int wants, str reduction, int ignore_index, float label_smoothing, float z_loss,
    float softcap, float temperature, SymInt max_counted, str mode, int budget, int flags, ScalarType grad_dtype) -> (
    Tensor, Tensor, Tensor, Tensor, Tensor)"""
INPUTS = 7 + 1 + len(Options._fields)
EVERY_GRADIENT = GRAD_INPUT | GRAD_WEIGHT | GRAD_BIAS
KEPT_PROMISE = "linear_cross_entropy_kept_promise(Tensor upstream, Tensor promise) -> Tensor"


def _real(input, weight, bias, labels, class_weights, upstream, above, wants, *options):
    results = run(wants, Options(*options), input, weight, bias, labels, class_weights, upstream, above)
    return tuple(_nothing(input, what, options) if result is None else result for what, result in enumerate(results))


def _nothing(input, what, options):
    dtype = (torch.float32, input.dtype, options[-1], options[-1], torch.float32)[what]
    return torch.empty(0, dtype=dtype, device=input.device)


def _fake(input, weight, bias, labels, class_weights, upstream, above, wants, *options):
    """The shapes and types of the results of _real."""
    shapes = labels.shape if options[0] == "none" else (), input.shape, weight.shape, None if bias is None else bias.shape, labels.shape
    results = [_nothing(input, what, options) for what in range(5)]
    return tuple(result.new_empty(shapes[what]) if wants >> what & 1 else result for what, result in enumerate(results))


def _setup(ctx, inputs, output):
    """Saves the gradients, if the forward has computed them; else the tensors to compute them from.

    Gradients of the forward are for an upstream gradient of 1 and none of the entropies, or for the promised ones.
    """
    ctx.set_materialize_grads(False)
    ctx.wants, ctx.options = inputs[7], inputs[8:]
    ctx.mark_non_differentiable(*(result for what, result in enumerate(output) if not ctx.wants & (LOSS | ENTROPY) & 1 << what))
    ctx.save_for_backward(*([*inputs[5:7], *output[1:4]] if ctx.wants & EVERY_GRADIENT else inputs[:5]))


def _backward(ctx, upstream, _dx, _dw, _db, above):
    rest = (None,) * (INPUTS - 3)
    if upstream is None and above is None:
        return None, None, None, *rest
    refuse_second_derivative()
    bits, needs = (GRAD_INPUT, GRAD_WEIGHT, GRAD_BIAS), ctx.needs_input_grad[:3]
    if not ctx.wants & EVERY_GRADIENT:
        wants = sum(bit for bit, need in zip(bits, needs) if need)
        upstream, above = _both(ctx.saved_tensors[3], ctx.options[0], upstream, above)
        gradients = _computed(*ctx.saved_tensors, upstream, above, wants, *ctx.options)[1:4]
    else:
        *promises, dinput, dweight, dbias = ctx.saved_tensors
        needs = [need and ctx.wants & bit for bit, need in zip(bits, needs)]
        gradients = [gradient if need else None for gradient, need in zip((dinput, dweight, dbias), needs)]
        gradients = finished(gradients, (upstream, above), promises)
    return *(gradient if need else None for gradient, need in zip(gradients, needs)), *rest


def _both(labels, reduction, upstream, above):
    """The gradients of loss and entropies as the library takes them: that of the loss, without one, is 0."""
    if upstream is None:
        upstream = torch.zeros(labels.shape if reduction == "none" else (), dtype=torch.float32, device=labels.device)
    return upstream.float().contiguous(), None if above is None else above.float().contiguous()


def refuse_second_derivative():
    """Refuses to differentiate the gradients again: PyTorch would take them for constants."""
    if torch.is_grad_enabled():
        raise Error("linear_cross_entropy cannot be differentiated twice: leave out create_graph, or use F.cross_entropy")


def finished(gradients, upstreams, promises):
    """Multiplies GRADIENTS (None: not wanted) that were computed with the loss by the loss's upstream gradient, or, where
    that was promised, by 1; by NaN where a promise was broken.

    UPSTREAMS: of the loss and of the entropies, None where there is none.  PROMISES: of the loss, None where nothing was
    promised; of the entropies, None where no gradient was.
    """
    (upstream, above), (promise, promised_above) = upstreams, promises
    keep = keeps_graph(above if upstream is None else upstream)
    kept = torch.ops.vramscope.linear_cross_entropy_kept_promise
    broken = [] if promise is None else [kept(torch.zeros_like(promise) if upstream is None else upstream, promise)]
    if above is not None or promised_above is not None:
        both = above, promised_above
        broken.append(kept(*(torch.zeros_like(both[1 - i]) if both[i] is None else both[i] for i in range(2))))
    factor = broken[0] if len(broken) == 1 else broken[0] * broken[1] if broken else None
    if promise is None:
        factor = torch.zeros_like(factor) * factor if upstream is None else upstream if factor is None else upstream.float() * factor
        return [scaled(gradient, factor, keep) for gradient in gradients]
    # one NaN is enough to be noticed; the weight's gradient is a large one to go over
    first = next((i for i, gradient in enumerate(gradients) if gradient is not None), None)
    return [scaled(gradient, factor, keep) if i == first else gradient for i, gradient in enumerate(gradients)]


def keeps_graph(upstream):
    """Whether backward may run again, or is traced, so that the saved tensors must not be changed."""
    ask = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return ask() if ask and type(upstream) is torch.Tensor else True


def scaled(gradient, factor, keep):
    """GRADIENT times FACTOR, in place unless it is to be kept.

    In fp32.  On a GPU the library does it: of loss.backward() the factor is 1, which only the device knows, and PyTorch's
    product goes over the gradient for that, in 7 to 25 % of the loss's time.  Where that cannot be (a traced graph), and on
    the CPU, it is PyTorch's, without a copy in fp32: on the GPU a factor of as many dimensions as the gradient does that
    (one without would be rounded to 16 bits first), on the CPU one without.
    """
    if gradient is None:
        return None
    if gradient.is_cuda and type(factor) is torch.Tensor and factor.numel() == 1 and gradient.is_contiguous() and gradient.data_ptr() % 16 == 0:
        gradient = gradient.clone() if keep else gradient
        scale(gradient, factor.float())
        return gradient
    factor = factor.reshape([1] * gradient.dim() if gradient.is_cuda else [])
    return (gradient * factor).to(gradient.dtype) if keep else gradient.mul_(factor)


def _kept_promise(upstream, promise):
    """1 if UPSTREAM is the promised gradient; else NaN, which check() reports."""
    broken = (upstream != promise.reshape(upstream.shape)).any()
    with on(upstream.device):
        library_for(upstream.device).flag.bitwise_or_(broken.to(torch.int32) * BROKEN_PROMISE)
    return torch.where(broken, float("nan"), 1.0)


def _register():
    registry = torch.library.Library("vramscope", "FRAGMENT")
    registry.define(SCHEMA)
    registry.define(KEPT_PROMISE)
    for device in ("CPU", "CUDA"):
        registry.impl("linear_cross_entropy", _real, device)
        registry.impl("linear_cross_entropy_kept_promise", _kept_promise, device)
    torch.library.register_fake(NAME, _fake, lib=registry)
    torch.library.register_fake(NAME + "_kept_promise", lambda upstream, promise: upstream.new_empty(()).float(), lib=registry)
    torch.library.register_autograd(NAME, _backward, setup_context=_setup, lib=registry)
    return registry


if "_registry" not in globals():  # importlib.reload finds the operator as it is
    _registry = _register()


# ---- the same without the dispatcher ----


class LinearCrossEntropy(torch.autograd.Function):
    """OTHERS: all inputs but the three that have gradients, in one, since PyTorch takes its time with each argument."""

    @staticmethod
    def forward(ctx, input, weight, bias, others):
        inputs = input, weight, bias, *others
        output = _real(*inputs)
        _setup(ctx, inputs, output)
        return output

    @staticmethod
    def backward(ctx, *upstreams):
        return *_backward(ctx, *upstreams)[:3], None


PLAIN = {torch.Tensor, torch.nn.Parameter, type(None)}


def _watched(tensors):
    """Whether somebody may look at operators: a compiler, a tracer, a mode, a kind of tensor."""
    seen = torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() or torch._C._get_tracing_state()
    return seen or not PLAIN.issuperset(map(type, tensors))


def _computed(*inputs):
    """The operator's results; by the operator where somebody may look at it."""
    return torch.ops.vramscope.linear_cross_entropy(*inputs) if _watched(inputs[:7]) else _direct(*inputs)


def _direct(*inputs):
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs[:3]):
        return LinearCrossEntropy.apply(*inputs[:3], inputs[3:])
    return _real(*inputs)


# ---- the same for a call like an earlier one: what the host does before the GPU has work is time that the GPU waits ----

MOST_JUDGED = 1024
_judged = {}  # what was asked, as _asked says it, and found to be right: its Options


def _asked(tensors, *chosen):
    """What tells a call from others, but for the tensors' values, strides and need of gradients; None if more does."""
    if _watched(tensors) or forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None:
        return None
    kind = tensors[0].device.type
    if kind not in ("cpu", "cuda") or torch.is_autocast_enabled(kind):
        return None
    return *[t if t is None else (t.shape, t.dtype, t.device) for t in tensors], *chosen


def _again(options, input, weight, labels, bias, class_weights):
    """The loss of a call that was judged right before."""
    wants = LOSS
    if options.reduction != "none" and torch.is_grad_enabled():
        for bit, tensor in ((GRAD_INPUT, input), (GRAD_WEIGHT, weight), (GRAD_BIAS, bias)):
            wants |= bit if tensor is not None and tensor.requires_grad else 0
    rows = input if input.dim() == 2 else input.reshape(-1, weight.size(1))
    row = labels if labels.dim() == 1 else labels.reshape(-1)
    loss = _direct(rows, weight, bias, row, class_weights, None, None, wants, *options)[0]
    return loss.reshape(labels.shape) if options.reduction == "none" else loss


# ---- gradients that go to main_grad: no operator, because what it writes is nothing that a graph hands over ----


class _IntoMainGrad(torch.autograd.Function):
    """Computes the loss in the forward, and the gradients too if there is a promise; else these in the backward."""

    @staticmethod
    def forward(ctx, wants, options, sums, promise, *tensors):
        ctx.wants, ctx.options, ctx.sums = wants & ~LOSS, options, sums
        ctx.promised = promise is not None
        if not ctx.promised:
            ctx.save_for_backward(*tensors)
            return run(LOSS, options, *tensors, None)[0]
        loss, dinput, *_ = run(wants, options, *tensors, promise, None, *sums)
        ctx.save_for_backward(promise, dinput)
        return loss

    @staticmethod
    def backward(ctx, upstream):
        refuse_second_derivative()
        if ctx.promised:
            promise, dinput = ctx.saved_tensors
            dinput = finished([dinput], (upstream, None), (promise, None))[0]
        else:
            dinput = run(ctx.wants, ctx.options, *ctx.saved_tensors, upstream.float().contiguous(), None, *ctx.sums)[1]
        return None, None, None, None, dinput, None, None, None, None


def _main_grad(name, tensor, dtype):
    total = getattr(tensor, "main_grad", None)
    if total is None:
        refuse(f"main_grad is asked for, and {name} has no attribute main_grad")
    dense = total.is_contiguous() or total.dim() == 2 and total.stride(1) == 1
    if total.shape != tensor.shape or total.device != tensor.device or not dense or total.data_ptr() % 16:
        refuse(f"{name}.main_grad must be a tensor as {name} is, with dense rows")
    if total.dtype not in (torch.float32, dtype):
        refuse(f"{name}.main_grad is {total.dtype}; it must be float32 or {dtype}")
    return total.detach()


@torch.compiler.disable
def _into_main_grad(wants, options, promise, input, weight, bias, labels, class_weights):
    needs = wants & GRAD_WEIGHT, wants & GRAD_BIAS
    if needs[1] and not needs[0]:
        refuse("main_grad of weight and bias must both be there, in the same type")
    sums = [_main_grad(n, t, input.dtype) if need else None for n, t, need in zip(("weight", "bias"), (weight, bias), needs)]
    if sums[1] is not None and sums[1].dtype != sums[0].dtype:
        refuse("main_grad of weight and bias must both be there, in the same type")
    options = options._replace(grad_dtype=sums[0].dtype)
    return _IntoMainGrad.apply(wants, options, sums, promise, input, weight, bias, labels, class_weights)


# ---- what the caller sees ----


class _MeanOverRanks(torch.autograd.Function):
    """A sharded weight as it is; its gradient, a sum over ranks by then, divided by their number."""

    @staticmethod
    def forward(ctx, weight, ranks):
        ctx.ranks = ranks
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx, gradient):
        return gradient / ctx.ranks, None


def _whole(name, tensor):
    """TENSOR itself; a DTensor gathered, whose gradient will be the ranks' mean, scattered as its values are."""
    if tensor is None or not hasattr(tensor, "full_tensor"):
        return tensor
    from torch.distributed.tensor import Partial

    if name not in ("weight", "bias"):
        refuse(f"{name} is a DTensor; give each rank its own part (to_local)")
    mesh = tensor.device_mesh
    return _MeanOverRanks.apply(tensor, mesh.size()).full_tensor(grad_placements=[Partial()] * mesh.ndim)


def linear_cross_entropy(
    input, weight, labels, bias=None, *,
    class_weights=None, ignore_index=-100, reduction="mean", label_smoothing=0.0, z_loss=0.0, softcap=0.0, temperature=1.0,
    return_entropy=False, group=None, vocab_range=None, upstream=None, entropy_upstream=None, main_grad=False, max_counted=0, mode="auto", budget=None, f32_logits=False, f32_accumulate=False,
):  # fmt: skip
    """cross_entropy(input @ weight.T + bias, labels), in fp32, without holding the logits.

    input [..., H], weight [V, H], bias [V] in float32, float16 or bfloat16; labels [...] in int64 or int32.  Under
    autocast they are computed with in its type, as F.linear does; the weight's gradient then is exact to the weight's own.
    class_weights, ignore_index, reduction, label_smoothing are those of F.cross_entropy; z_loss q adds q lse^2 a token;
    softcap c makes the logits c tanh(logits / c); temperature t then divides them by t.

    return_entropy   (loss, entropies): that of each token's softmax, of labels' shape, 0 where ignored; both have gradients,
                 which are computed in the backward, with the logits once more, unless `entropy_upstream` is given
    group        vocabulary-parallel: each rank of this process group has a part of the weight's (and the bias's) rows, and
                 the same input and labels (of the whole vocabulary).  All get the same loss; input.grad is summed over them,
                 and those of weight and bias are of their rows.  class_weights are of the whole vocabulary.  Parts are of
                 equal size, or `vocab_range` is (this rank's first class, the number of all classes).  torch.compile breaks
                 its graph there

    A weight that is a DTensor is gathered for the call; its gradient is the mean over the ranks of its mesh, as with FSDP2,
    and comes back sharded.  Inside of a module that fully_shard wraps the weight is whole already.

    upstream     a promise: the gradient that this loss will get (a number or a tensor; 1 where you call loss.backward();
                 a GradScaler's scale).  Gradients are computed with it and not multiplied afterwards.  If another comes, the
                 input's gradient is NaN and check() says so
    entropy_upstream   with return_entropy, likewise the gradient that the entropies will get (a number or a tensor of labels'
                 shape): 0 where they are only looked at, otherwise with `upstream`, too
    main_grad    weight.main_grad (and bias.main_grad), float32 or as the weight, is added to; weight.grad stays as it is.
                 In the backward; with `upstream` already in the forward, so not inside of gradient checkpointing.
                 torch.compile breaks its graph there, and with fullgraph=True refuses it
    max_counted  a promise: at most so many labels are not ignore_index; the others then cost nothing
    mode         auto, fast, lean
    budget       the most bytes of workspace: the plan is fast's if it fits, else lean's; less is refused, with lean's bytes
    f32_logits   a chunk's logits in fp32 where the types are of 16 bits: exact gradients also where the softmax is peaked
    f32_accumulate   sums the weight's gradient over the chunks in fp32 and rounds once (4 H V bytes more)
    """
    asked = None
    if not (return_entropy or main_grad or torch.compiler.is_compiling()) and group is vocab_range is upstream is entropy_upstream is None:
        numbers = int(ignore_index), float(label_smoothing), float(z_loss), float(softcap), float(temperature), max_counted, budget
        asked = _asked((input, weight, labels, bias, class_weights), reduction, mode, f32_logits, f32_accumulate, *numbers)
        options = _judged.get(asked)
        if options:
            return _again(options, input, weight, labels, bias, class_weights)
    refuse_transforms(input, weight, bias)
    tensors = (("input", input), ("weight", weight), ("labels", labels), ("bias", bias), ("class_weights", class_weights))
    if group is not None and any(hasattr(tensor, "full_tensor") for _, tensor in tensors):
        refuse("with group, give each rank its own part of weight and bias (to_local), not a DTensor")
    input, weight, labels, bias, class_weights = (_whole(name, tensor) for name, tensor in tensors)
    check_tensors(input, weight, labels, bias, class_weights if group is None else None)
    dtype = compute_dtype(input, weight, bias)
    flags = choices(reduction, mode, f32_logits, f32_accumulate, dtype)
    check_choices(temperature, return_entropy, group, vocab_range, upstream, entropy_upstream, main_grad)
    rows, label_row = input.reshape(-1, weight.size(1)).to(dtype), labels.reshape(-1)
    if weight.dtype != torch.float32 and not main_grad:  # an fp32 weight is rounded in the call, and its gradient is not
        weight = weight.to(dtype)
    if bias is not None and not main_grad:
        bias = bias.to(weight.dtype)
    needs = [t is not None and t.requires_grad and torch.is_grad_enabled() for t in (input, weight, bias)]
    wants = LOSS | sum(bit for bit, needed in zip((GRAD_INPUT, GRAD_WEIGHT, GRAD_BIAS), needs) if needed)
    promise = promised("upstream", upstream, "loss", label_row.shape if reduction == "none" else torch.Size(), input.device)
    some = isinstance(entropy_upstream, torch.Tensor) or entropy_upstream
    promises = promise, promised("entropy_upstream", entropy_upstream, "labels", label_row.shape, input.device) if some else None
    # whether the forward can compute the gradients
    known = (reduction != "none" or promise is not None) and (entropy_upstream is not None or not return_entropy)
    grad_dtype = torch.float32 if weight.dtype == torch.float32 else dtype
    options = Options(reduction, int(ignore_index), float(label_smoothing), float(z_loss), float(softcap), float(temperature),
                      max_counted, mode, int(budget or 0), flags, grad_dtype)  # fmt: skip
    if group is not None:
        from .cross_entropy_parts import parallel

        tensors = rows, weight, bias, label_row, class_weights
        loss, entropy = parallel(group, vocab_range, wants, return_entropy, options, promises, known, *tensors)
    elif main_grad and wants & (GRAD_WEIGHT | GRAD_BIAS):
        loss = _into_main_grad(wants, options, promise, rows, weight, bias, label_row, class_weights)
    else:
        now = (wants if known else LOSS) | (ENTROPY if return_entropy else 0)
        given = rows, weight, bias, label_row, class_weights, *(promises if now & EVERY_GRADIENT else (None, None))
        loss, *_, entropy = _computed(*given, now, *options)
    if asked:
        if len(_judged) >= MOST_JUDGED:
            _judged.clear()
        _judged[asked] = options
    loss = loss.reshape(labels.shape) if reduction == "none" else loss
    return (loss, entropy.reshape(labels.shape)) if return_entropy else loss


def linear_log_probability(input, weight, labels, bias=None, *, temperature=1.0, return_entropy=False, **options):
    """log_softmax((input @ weight.T + bias) / temperature) at each label, of labels' shape; 0 where it is ignored.

    With return_entropy (log-probabilities, entropies): what policy gradients are made of.  OPTIONS are those of
    linear_cross_entropy: ignore_index, softcap (before the temperature), group, vocab_range, max_counted, mode, budget,
    f32_logits, f32_accumulate, and the promises: upstream (of the log-probabilities), entropy_upstream.
    """
    known = "ignore_index softcap group vocab_range max_counted mode budget f32_logits f32_accumulate upstream entropy_upstream"
    refused = set(options) - set(known.split())
    if refused:
        raise TypeError(f"linear_log_probability: {', '.join(sorted(refused))} belongs to linear_cross_entropy")
    if options.get("upstream") is not None:
        options["upstream"] = -options["upstream"]
    loss = linear_cross_entropy(input, weight, labels, bias, reduction="none", temperature=temperature,
                                return_entropy=return_entropy, **options)  # fmt: skip
    return (-loss[0], loss[1]) if return_entropy else -loss


def workspace_bytes(tokens, hidden, vocab, dtype=torch.bfloat16, device="cuda", mode="auto", budget=None, bias=False,
                    f32_logits=False):  # fmt: skip
    """What a training call with otherwise default options allocates while it runs, beyond the gradients; exactly."""
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    flags = choices("mean", mode, f32_logits, False, dtype)
    options = Options("mean", -100, 0.0, 0.0, 0.0, 1.0, 0, mode, int(budget or 0), flags, dtype)
    wants = LOSS | GRAD_INPUT | GRAD_WEIGHT | (GRAD_BIAS if bias else 0)
    return workspace_size(wants, options, dtype, tokens, hidden, vocab, device)
