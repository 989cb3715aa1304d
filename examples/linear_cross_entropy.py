"""linear_cross_entropy.py - the loss of an output layer in PyTorch, without ever holding all the logits.

    from linear_cross_entropy import check, linear_cross_entropy

    loss = linear_cross_entropy(hidden, head.weight, labels)
    loss.backward()

takes the place of

    loss = F.cross_entropy(F.linear(hidden, head.weight).float().flatten(0, 1), labels.flatten())

It calls liblinear_cross_entropy.so (its header has the formulas) by ctypes: nothing to compile.  The library is found
in the tree that this file lies in, built or installed; LCE_LIBRARY names another.  CPU tensors work too, slowly.

How: with reduction mean or sum the gradients are computed together with the loss, while a chunk's logits are there, and
kept; backward multiplies them in place by what comes from above.  With `none`, or with `main_grad`, what comes from
above is needed first: the loss comes from the forward and the gradients from the backward, at the price of the logits'
product a second time.  Who knows it beforehand says so (`upstream`), and pays nothing twice in either case.
Nothing here waits for the GPU, but for check().  The workspace comes from PyTorch's allocator and goes back with the call.

A label out of range makes its token's loss and gradient NaN, and sets a flag on the device that check() reads.
"""

import ctypes as C
import os
import threading
from collections import OrderedDict
from contextlib import nullcontext
from dataclasses import dataclass

import torch

__all__ = ["linear_cross_entropy", "check", "workspace_bytes", "Error"]

DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
LABEL_DTYPES = {torch.int64: 0, torch.int32: 1}
REDUCTIONS, MODES = {"mean": 0, "sum": 1, "none": 2}, {"auto": 0, "fast": 1, "lean": 2, "naive": 3}
LOSS, GRAD_INPUT, GRAD_WEIGHT, GRAD_BIAS = 1, 2, 4, 8
ALLOW_TF32, F32_ACCUMULATE, F32_LOGITS = 1, 2, 4
BAD_LABEL, TOO_MANY, BROKEN_PROMISE = 1, 2, 4  # the error flag's bits; the last is set here, not by the library
MOST_PLANS = 256


class Error(RuntimeError):
    """What the library says, or that it cannot be found."""


# ---- the C interface ----


def _fields(names, type_):
    return [(name, type_) for name in names.split()]


class _Problem(C.Structure):
    _fields_ = (
        _fields("size wants flags", C.c_uint32)
        + _fields("dtype label_dtype grad_weight_dtype reduction", C.c_int32)
        + _fields("proposals", C.c_uint32)
        + _fields("tokens hidden vocab input_stride weight_stride grad_input_stride grad_weight_stride", C.c_int64)
        + _fields("ignore_index max_counted", C.c_int64)
        + _fields("label_smoothing z_loss softcap grad_weight_beta", C.c_float)
    )


class _Buffers(C.Structure):
    _fields_ = (
        _fields("input weight bias labels class_weights grad_output loss grad_input grad_weight grad_bias", C.c_void_p)
        + _fields("error_flag workspace", C.c_void_p)
        + _fields("workspace_size", C.c_size_t)
    )


class _Info(C.Structure):
    _fields_ = (
        _fields("mode chunks", C.c_int32)
        + _fields("chunk_tokens", C.c_int64)
        + _fields("workspace_size logits_size gemm_size", C.c_uint64)
        + _fields("slab_columns", C.c_int64)
    )


def _places():
    """Where the library may lie: what the user says; above us in an installed tree; the builds of a source tree."""
    named = os.environ.get("LCE_LIBRARY")
    if named:
        return [named]
    here = os.path.dirname(os.path.realpath(__file__))
    above = [os.path.join(here, *[".."] * up, "lib") for up in (3, 2, 1)]  # TREE/share/vramscope/examples
    builds = [os.path.join(here, "../build", preset, "lib") for preset in ("release", "debug")]
    return [os.path.normpath(os.path.join(place, "liblinear_cross_entropy.so")) for place in above + builds]


def _find():
    places = _places()
    for place in places:
        if os.path.exists(place):
            return place
    raise Error(f"liblinear_cross_entropy.so is not at {' nor at '.join(places)}: build it, or name it in LCE_LIBRARY")


def _bind(path):
    try:
        library = C.CDLL(path)
    except OSError as error:
        raise Error(f"{path} cannot be loaded: {error}") from None
    pointer = C.c_void_p
    for name, arguments, result in (
        ("lce_open", [C.c_int, C.POINTER(pointer)], C.c_int),
        ("lce_problem_init", [C.POINTER(_Problem)], None),
        ("lce_plan_create", [pointer, C.POINTER(_Problem), C.c_int, C.c_uint64, C.POINTER(pointer)], C.c_int),
        ("lce_plan_destroy", [pointer], None),
        ("lce_plan_info", [pointer], C.POINTER(_Info)),
        ("lce_run", [pointer, C.POINTER(_Buffers), pointer], C.c_int),
        ("lce_message", [], C.c_char_p),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    return library


# ---- a device's library and its plans ----


class _Plan:
    """One plan, and the streams that its work was put on: it is to live until that is done."""

    def __init__(self, handle, info):
        self.handle, self.info = handle, info
        self.streams, self.captured = set(), False

    def used(self, stream):
        if stream is not None:
            self.streams.add(stream)
            self.captured = self.captured or torch.cuda.is_current_stream_capturing()


class _Library:
    """The library opened for one device.  Plans are kept by what they are for; the oldest go when there are many."""

    def __init__(self, c, device):
        self.c, self.device, self.cuda = c, device, device.type == "cuda"
        self.plans, self.retired, self.lock = OrderedDict(), [], threading.Lock()
        self.handle = C.c_void_p()
        self.check(c.lce_open(int(self.cuda), C.byref(self.handle)))
        self.flag = torch.zeros(1, dtype=torch.int32, device=device)

    def check(self, status):
        if status:
            raise Error(self.c.lce_message().decode())

    def plan(self, fields, mode, budget):
        key = (fields, mode, budget)
        with self.lock:
            plan = self.plans.pop(key, None) or self._create(dict(fields), mode, budget)
            self.plans[key] = plan
            if len(self.plans) > MOST_PLANS:
                self._retire()
            return plan

    def _create(self, fields, mode, budget):
        problem = _Problem()
        self.c.lce_problem_init(C.byref(problem))
        for name, value in fields.items():
            setattr(problem, name, value)
        handle = C.c_void_p()
        self.check(self.c.lce_plan_create(self.handle, C.byref(problem), mode, budget, C.byref(handle)))
        return _Plan(handle, self.c.lce_plan_info(handle).contents)

    def _retire(self):
        """Takes the plan out that was not used for the longest time, and destroys those whose work is done."""
        if self.cuda and torch.cuda.is_current_stream_capturing():
            return  # no event may be asked now
        plan = self.plans.popitem(last=False)[1]
        if not plan.captured:  # a graph may replay its work at any time
            self.retired.append((plan, [stream.record_event() for stream in plan.streams]))
        done = [entry for entry in self.retired if all(event.query() for event in entry[1])]
        for entry in done:
            self.retired.remove(entry)
            self.c.lce_plan_destroy(entry[0].handle)


_c = None
_libraries = {}
_opening = threading.Lock()
_seen = threading.local()


def _on(device):
    """A context in which DEVICE is the current one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _library(device):
    """The library for DEVICE, which is current.  On a thread that is new to CUDA, makes its context current."""
    global _c
    if device.type == "cuda" and device not in _seen.__dict__.setdefault("devices", set()):
        torch.cuda.Event().record()
        _seen.devices.add(device)
    with _opening:
        if device not in _libraries:
            _c = _c or _bind(_find())
            _libraries[device] = _Library(_c, device)
        return _libraries[device]


def check(device=None):
    """Raises ValueError if a call on DEVICE (default: every device) had bad labels or a broken promise; waits for it."""
    wanted = None if device is None else torch.device(device)
    bits = 0
    for where, library in list(_libraries.items()):
        if wanted is None or where.type == wanted.type and wanted.index in (None, where.index):
            bits |= int(library.flag.item())
            library.flag.zero_()
    words = {
        BAD_LABEL: "a label was neither ignore_index nor in 0 .. vocabulary - 1",
        TOO_MANY: "more tokens counted than max_counted promised",
        BROKEN_PROMISE: "the gradient from above was not the promised `upstream`",
    }
    if bits:
        raise ValueError("linear_cross_entropy: since the last check() " + "; ".join(words[b] for b in words if bits & b))


# ---- one call ----


@dataclass(frozen=True)
class _Options:
    ignore_index: int
    reduction: str
    label_smoothing: float
    z_loss: float
    softcap: float
    max_counted: int
    mode: str
    budget: int
    flags: int
    grad_dtype: torch.dtype  # of dweight and dbias
    weight_sum: object = None  # main_grad of the weight, and of the bias: added to, not returned
    bias_sum: object = None


def _problem(wants, options, dtype, labels, tokens, weight_shape, strides, beta):
    """The fields of a problem, in a form that can be a key.  STRIDES: of input, weight and dweight."""
    fields = {"wants": wants, "tokens": tokens, "grad_weight_beta": beta}
    fields["dtype"], fields["label_dtype"] = DTYPES[dtype], LABEL_DTYPES[labels]
    fields["grad_weight_dtype"], fields["reduction"] = DTYPES[options.grad_dtype], REDUCTIONS[options.reduction]
    fields["vocab"], fields["hidden"] = weight_shape
    fields["input_stride"], fields["weight_stride"], fields["grad_weight_stride"] = strides
    for name in "flags ignore_index max_counted label_smoothing z_loss softcap".split():
        fields[name] = getattr(options, name)
    return tuple(fields.items())


def _rows(matrix, dtype):
    """MATRIX as the library reads it: of the type, its rows dense and aligned.  Itself where it is so already."""
    matrix = matrix.detach().to(dtype)
    if matrix.stride(1) != 1 and matrix.size(1) > 1 or matrix.stride(0) < matrix.size(1) or matrix.data_ptr() % 16:
        return matrix.clone(memory_format=torch.contiguous_format)
    return matrix


def _vector(vector, dtype):
    if vector is None:
        return None
    vector = vector.detach().to(dtype).contiguous()
    return vector.clone() if vector.data_ptr() % 16 else vector


def _stride(matrix):
    return max(matrix.stride(0), matrix.size(1))  # of a single row PyTorch says anything


def _address(tensor):
    return None if tensor is None else tensor.data_ptr()


def _run(wants, options, input, weight, bias, labels, class_weights, upstream):
    """One lce_run: the loss, and the gradients of input, weight and bias; None for each that is not in WANTS."""
    with _on(input.device):
        library = _library(input.device)
        dtype, device = input.dtype, input.device
        x, w, b = _rows(input, dtype), _rows(weight, dtype), _vector(bias, dtype)
        adds = options.weight_sum is not None and bool(wants & GRAD_WEIGHT)
        loss = dx = dw = db = None
        if wants & LOSS:
            loss = torch.empty(labels.shape if options.reduction == "none" else (), dtype=torch.float32, device=device)
        if wants & GRAD_INPUT:
            dx = torch.empty(input.shape, dtype=dtype, device=device)
        if wants & GRAD_WEIGHT:
            dw = options.weight_sum if adds else torch.empty(weight.shape, dtype=options.grad_dtype, device=device)
        if wants & GRAD_BIAS:
            db = options.bias_sum if adds else torch.empty(bias.shape, dtype=options.grad_dtype, device=device)
        strides = _stride(x), _stride(w), 0 if dw is None else _stride(dw)
        fields = _problem(wants, options, dtype, labels.dtype, labels.numel(), weight.shape, strides, float(adds))
        plan = library.plan(fields, MODES[options.mode], options.budget)
        size = plan.info.workspace_size
        workspace = torch.empty(size, dtype=torch.uint8, device=device)
        order = x, w, b, labels, class_weights, upstream, loss, dx, dw, db, library.flag, workspace
        stream = torch.cuda.current_stream(device) if library.cuda else None
        plan.used(stream)
        buffers = _Buffers(*map(_address, order), size)
        library.check(library.c.lce_run(plan.handle, C.byref(buffers), stream.cuda_stream if stream else None))
        return loss, dx, dw, db


def _keeps_graph():
    """Whether backward may come again, so that what is kept for it must stay as it is.

    Where the gradients are to be differentiated in turn, PyTorch's once_differentiable would let many cases pass, with a
    second derivative of 0.
    """
    if torch.is_grad_enabled():
        raise Error("linear_cross_entropy cannot be differentiated twice: leave out create_graph, or use F.cross_entropy")
    ask = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return ask() if ask else True


def _scaled(gradient, factor, keep):
    """GRADIENT times FACTOR, in place unless it is to be kept.

    In fp32, and without a copy in fp32: on the GPU a factor of as many dimensions as the gradient does that (one without
    would be rounded to 16 bits first), on the CPU one without.
    """
    if gradient is None:
        return None
    factor = factor.reshape([1] * gradient.dim() if gradient.is_cuda else [])
    return (gradient * factor).to(gradient.dtype) if keep else gradient.mul_(factor)


class _Forward(torch.autograd.Function):
    """Gradients made in the forward: for a gradient from above of 1, or for the one that was promised."""

    @staticmethod
    def forward(ctx, wants, options, input, weight, bias, labels, class_weights, promise):
        loss, *gradients = _run(wants, options, input, weight, bias, labels, class_weights, promise)
        if options.weight_sum is not None:
            gradients[1:] = None, None
        ctx.promised = promise is not None
        ctx.save_for_backward(promise, *gradients)
        return loss

    @staticmethod
    def backward(ctx, upstream):
        promise, *gradients = ctx.saved_tensors
        keep = _keeps_graph()
        if not ctx.promised:
            gradients = [_scaled(gradient, upstream, keep) for gradient in gradients]
        else:
            broken = (upstream != promise.reshape(upstream.shape)).any()
            with _on(upstream.device):
                _library(upstream.device).flag.bitwise_or_(broken.to(torch.int32) * BROKEN_PROMISE)
            first = next((i for i, gradient in enumerate(gradients) if gradient is not None), None)
            if first is not None:  # one NaN is enough to be noticed; the weight's gradient is a large one to go over
                nan = torch.where(broken, float("nan"), 1.0)
                gradients[first] = _scaled(gradients[first], nan, keep)
        return None, None, *gradients, None, None, None


class _Later(torch.autograd.Function):
    """The loss in the forward, the gradients in the backward, which makes the logits again."""

    @staticmethod
    def forward(ctx, wants, options, input, weight, bias, labels, class_weights):
        ctx.wants, ctx.options = wants & ~LOSS, options
        ctx.save_for_backward(input, weight, bias, labels, class_weights)
        return _run(LOSS, options, input, weight, bias, labels, class_weights, None)[0]

    @staticmethod
    def backward(ctx, upstream):
        _keeps_graph()
        _, *gradients = _run(ctx.wants, ctx.options, *ctx.saved_tensors, upstream.float().contiguous())
        if ctx.options.weight_sum is not None:
            gradients[1:] = None, None
        return None, None, *gradients, None, None


# ---- what the caller sees ----


def _refuse(what):
    raise ValueError(f"linear_cross_entropy: {what}")


def _check_tensors(input, weight, labels, bias, class_weights):
    if input.device.type not in ("cpu", "cuda"):
        _refuse(f"input is on {input.device}; only cpu and cuda are supported")
    if weight.dim() != 2 or input.dim() < 1 or input.size(-1) != weight.size(1):
        _refuse(f"input is {list(input.shape)} and weight {list(weight.shape)}; they must be [..., H] and [V, H]")
    if labels.shape != input.shape[:-1]:
        _refuse(f"labels are {list(labels.shape)}; for this input they must be {list(input.shape[:-1])}")
    if labels.dtype not in LABEL_DTYPES:
        _refuse(f"labels are {labels.dtype}; they must be int64 or int32")
    for name, vector in (("bias", bias), ("class_weights", class_weights)):
        if vector is not None and vector.shape != weight.shape[:1]:
            _refuse(f"{name} is {list(vector.shape)}; it must be [{weight.size(0)}]")
    for name, tensor in (("weight", weight), ("labels", labels), ("bias", bias), ("class_weights", class_weights)):
        if tensor is not None and tensor.device != input.device:
            _refuse(f"{name} is on {tensor.device} and input on {input.device}; they must be on the same device")


def _compute_dtype(input, weight, bias):
    """The type to compute in: autocast's, where that is on, as for F.linear; else that of all three."""
    kind = input.device.type
    if torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    for name, tensor in (("weight", weight), ("bias", bias)):
        if tensor is not None and tensor.dtype != input.dtype:
            _refuse(f"{name} is {tensor.dtype} and input {input.dtype}; they must be of one type outside of autocast")
    if input.dtype not in DTYPES:
        _refuse(f"input is {input.dtype}; it must be float32, float16 or bfloat16")
    return input.dtype


def _main_grad(name, tensor, dtype):
    total = getattr(tensor, "main_grad", None)
    if total is None:
        _refuse(f"main_grad is asked for, and {name} has no attribute main_grad")
    dense = total.is_contiguous() or total.dim() == 2 and total.stride(1) == 1
    if total.shape != tensor.shape or total.device != tensor.device or not dense or total.data_ptr() % 16:
        _refuse(f"{name}.main_grad must be a tensor as {name} is, with dense rows")
    if total.dtype not in (torch.float32, dtype):
        _refuse(f"{name}.main_grad is {total.dtype}; it must be float32 or {dtype}")
    return total.detach()


def _promised(upstream, loss_shape, device):
    if upstream is None:
        return None
    if not isinstance(upstream, torch.Tensor):
        return torch.full(loss_shape, float(upstream), dtype=torch.float32, device=device)
    if upstream.numel() != loss_shape.numel() or upstream.device != device:
        _refuse(f"upstream is {list(upstream.shape)} on {upstream.device}; it must be as the loss, on {device}")
    return upstream.detach().float().contiguous()


def _choices(reduction, mode, f32_logits, f32_accumulate, dtype):
    for name, value, known in (("reduction", reduction, REDUCTIONS), ("mode", mode, MODES)):
        if value not in known:
            _refuse(f"{name} is {value!r}; it must be one of {', '.join(known)}")
    tf32 = dtype == torch.float32 and torch.get_float32_matmul_precision() != "highest"
    flags = F32_LOGITS if f32_logits and dtype != torch.float32 else 0
    return flags | (F32_ACCUMULATE if f32_accumulate else 0) | (ALLOW_TF32 if tf32 else 0)


@torch.compiler.disable
def linear_cross_entropy(
    input, weight, labels, bias=None, *,
    class_weights=None, ignore_index=-100, reduction="mean", label_smoothing=0.0, z_loss=0.0, softcap=0.0,
    upstream=None, main_grad=False, max_counted=0, mode="auto", budget=None, f32_logits=False, f32_accumulate=False,
):  # fmt: skip
    """cross_entropy(input @ weight.T + bias, labels), in fp32, without holding the logits.

    input [..., H], weight [V, H], bias [V] in float32, float16 or bfloat16; labels [...] in int64 or int32.  Under
    autocast they are computed with in its type, as F.linear does; the weight's gradient then is exact to the weight's own.
    class_weights, ignore_index, reduction, label_smoothing are those of F.cross_entropy; z_loss q adds q lse^2 a token;
    softcap c makes the logits c tanh(logits / c).

    upstream     a promise: the gradient that this loss will get (a number or a tensor; 1 where you call loss.backward();
                 a GradScaler's scale).  Gradients are computed with it and not multiplied afterwards.  If another comes, the
                 input's gradient is NaN and check() says so
    main_grad    weight.main_grad (and bias.main_grad), float32 or as the weight, is added to; weight.grad stays as it is.
                 In the backward; with `upstream` already in the forward, so not inside of gradient checkpointing
    max_counted  a promise: at most so many labels are not ignore_index; the others then cost nothing
    mode         auto, fast, lean, naive; `budget`: the most bytes of workspace (None: as the mode has it)
    f32_logits   a chunk's logits in fp32 where the types are of 16 bits: exact gradients also where the softmax is peaked
    f32_accumulate   sums the weight's gradient over the chunks in fp32 and rounds once (4 H V bytes more)
    """
    _check_tensors(input, weight, labels, bias, class_weights)
    dtype = _compute_dtype(input, weight, bias)
    rows, label_row = input.reshape(-1, weight.size(1)).to(dtype), labels.reshape(-1).contiguous()
    needs = [t is not None and t.requires_grad and torch.is_grad_enabled() for t in (input, weight, bias)]
    wants = LOSS | sum(bit for bit, needed in zip((GRAD_INPUT, GRAD_WEIGHT, GRAD_BIAS), needs) if needed)
    sums = [_main_grad(n, t, dtype) if main_grad and need else None
            for n, t, need in (("weight", weight, needs[1]), ("bias", bias, needs[2]))]  # fmt: skip
    given = [t.dtype for t in sums if t is not None]
    if len(set(given)) > 1 or main_grad and needs[2] and not needs[1]:
        _refuse("main_grad of weight and bias must both be there, in the same type")
    grad_dtype = given[0] if given else torch.float32 if weight.dtype == torch.float32 else dtype
    flags = _choices(reduction, mode, f32_logits, f32_accumulate, dtype)
    options = _Options(int(ignore_index), reduction, float(label_smoothing), float(z_loss), float(softcap), int(max_counted),
                       mode, int(budget or 0), flags, grad_dtype, *sums)  # fmt: skip
    tensors = rows, weight, bias, label_row, _vector(class_weights, torch.float32)
    promise = _promised(upstream, label_row.shape if reduction == "none" else torch.Size(), input.device)
    if wants == LOSS:
        loss = _run(wants, options, *tensors, None)[0]
    elif promise is None and (reduction == "none" or given):
        loss = _Later.apply(wants, options, *tensors)
    else:
        loss = _Forward.apply(wants, options, *tensors, promise)
    return loss.reshape(labels.shape) if reduction == "none" else loss


def workspace_bytes(tokens, hidden, vocab, dtype=torch.bfloat16, device="cuda", mode="auto", budget=None, bias=False,
                    f32_logits=False):  # fmt: skip
    """What a training call with otherwise default options allocates while it runs, beyond the gradients; exactly."""
    device = torch.device(device)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    flags = _choices("mean", mode, f32_logits, False, dtype)
    options = _Options(-100, "mean", 0.0, 0.0, 0.0, 0, mode, int(budget or 0), flags, dtype)
    wants = LOSS | GRAD_INPUT | GRAD_WEIGHT | (GRAD_BIAS if bias else 0)
    fields = _problem(wants, options, dtype, torch.int64, tokens, (vocab, hidden), (hidden, hidden, hidden), 0.0)
    with _on(device):
        return _library(device).plan(fields, MODES[mode], int(budget or 0)).info.workspace_size
