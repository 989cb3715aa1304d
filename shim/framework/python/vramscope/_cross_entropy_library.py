"""_cross_entropy_library - liblinear_cross_entropy.so for PyTorch's tensors, by ctypes; it knows nothing of autograd.

`run` is one lce_run: it plans, allocates what the call writes and its workspace from PyTorch's allocator, and puts the work on the current
stream.  The library is found in the tree that this file lies in, built or installed, or by LCE_LIBRARY, and opened once for each device.
Plans are cached by problem, and read only: threads share them.  Only check() waits for the GPU.
"""

import ctypes as C
import os
import threading
from collections import OrderedDict
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch

DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
LABEL_DTYPES = {torch.int64: 0, torch.int32: 1}
REDUCTIONS, MODES = {"mean": 0, "sum": 1, "none": 2}, {"auto": 0, "fast": 1, "lean": 2}
LOSS, GRAD_INPUT, GRAD_WEIGHT, GRAD_BIAS, ENTROPY, PARTIAL = 1, 2, 4, 8, 16, 32
PARTIAL_NUMBERS = 5  # of fp32 in a struct lce_partial
ALLOW_TF32, F32_ACCUMULATE, F32_LOGITS, EXCHANGE = 1, 2, 4, 16
START, FINISH = 0, 1  # of enum lce_exchange_step
BAD_LABEL, TOO_MANY, BROKEN_PROMISE, BROKEN_PARTS = 1, 2, 4, 8  # the error flag's bits; the last two are not set by the library
MOST_PLANS = 256


class Error(RuntimeError):
    """The library's message, or that the library cannot be found."""


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
        + _fields("label_smoothing z_loss softcap grad_weight_beta temperature", C.c_float)
        + _fields("parts", C.c_int32)
        + _fields("vocab_begin vocab_total", C.c_int64)
    )


_EXCHANGE = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_int, C.c_int64, C.c_int64, C.c_void_p)


class _Buffers(C.Structure):
    _fields_ = (
        _fields("input weight bias labels class_weights grad_output loss grad_input grad_weight grad_bias", C.c_void_p)
        + _fields("error_flag workspace", C.c_void_p)
        + _fields("workspace_size", C.c_size_t)
        + _fields("entropy grad_entropy partial partials", C.c_void_p)
        + [("exchange", _EXCHANGE), ("exchange_context", C.c_void_p)]
    )


class _Info(C.Structure):
    _fields_ = (
        _fields("mode chunks", C.c_int32)
        + _fields("chunk_tokens", C.c_int64)
        + _fields("workspace_size logits_size gemm_size", C.c_uint64)
        + _fields("slab_columns", C.c_int64)
    )


def _places():
    """Where the library may lie: what the user says; in the tree whose share/vramscope/python/vramscope this is, installed or
    built; the builds of a source tree."""
    named = os.environ.get("LCE_LIBRARY")
    if named:
        return [named]
    here, source = (os.path.dirname(path) for path in (os.path.abspath(__file__), os.path.realpath(__file__)))
    folders = [os.path.join(here, "../../../../lib")]
    folders += [os.path.join(source, "../../../../build", preset, "lib") for preset in ("release", "debug")]
    return [os.path.normpath(os.path.join(folder, "liblinear_cross_entropy.so")) for folder in folders]


def find():
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
        ("lce_plan_create_chunk", [pointer, C.POINTER(_Problem), C.c_int, C.c_int64, C.c_uint64, C.POINTER(pointer)], C.c_int),
        ("lce_plan_destroy", [pointer], None),
        ("lce_plan_info", [pointer], C.POINTER(_Info)),
        ("lce_run", [pointer, C.POINTER(_Buffers), pointer], C.c_int),
        ("lce_scale", [pointer, pointer, C.c_uint64, C.c_int, pointer, pointer], C.c_int),
        ("lce_message", [], C.c_char_p),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, result
    return library


# ---- a device's library and its plans ----


class _Plan:
    """One plan, and the streams that its work was put on; the plan must live until the work is done."""

    def __init__(self, handle, info):
        self.handle, self.info = handle, info
        self.streams, self.captured = {}, False

    def used(self, stream):
        """Will be on the current stream, which STREAM is the address of."""
        if stream is not None:
            if stream not in self.streams:
                self.streams[stream] = torch.cuda.current_stream()
            self.captured = self.captured or torch.cuda.is_current_stream_capturing()


class _Library:
    """The library opened for one device, with a cache of plans from which the oldest are removed."""

    def __init__(self, c, device):
        self.c, self.device, self.cuda = c, device, device.type == "cuda"
        self.plans, self.retired, self.lock = OrderedDict(), [], threading.Lock()
        self.handle = C.c_void_p()
        self.check(c.lce_open(int(self.cuda), C.byref(self.handle)))
        with torch.inference_mode(False):  # check() writes to it outside of any
            self.flag = torch.zeros(1, dtype=torch.int32, device=device)

    def check(self, status):
        if status:
            raise Error(self.c.lce_message().decode())

    def plan(self, fields, mode, budget, chunk=0):
        """The plan for a problem; CHUNK 0: the library chooses it."""
        key = (fields, mode, budget, chunk)
        with self.lock:
            plan = self.plans.pop(key, None) or self._create(dict(fields), mode, budget, chunk)
            self.plans[key] = plan
            if len(self.plans) > MOST_PLANS:
                self._retire()
            return plan

    def _create(self, fields, mode, budget, chunk):
        fields_of_c = _Problem()
        self.c.lce_problem_init(C.byref(fields_of_c))
        for name, value in fields.items():
            setattr(fields_of_c, name, value)
        handle = C.c_void_p()
        self.check(self.c.lce_plan_create_chunk(self.handle, C.byref(fields_of_c), mode, chunk, budget, C.byref(handle)))
        return _Plan(handle, self.c.lce_plan_info(handle).contents)

    def _retire(self):
        """Removes the least recently used plan from the cache, and destroys removed plans whose work is done."""
        if self.cuda and torch.cuda.is_current_stream_capturing():
            return  # no event may be asked now
        plan = self.plans.popitem(last=False)[1]
        if not plan.captured:  # a graph may replay its work at any time
            self.retired.append((plan, [stream.record_event() for stream in plan.streams.values()]))
        done = [entry for entry in self.retired if all(event.query() for event in entry[1])]
        for entry in done:
            self.retired.remove(entry)
            self.c.lce_plan_destroy(entry[0].handle)


_c = None
_libraries = {}
_opening = threading.Lock()
_seen = threading.local()


_here = nullcontext()


def on(device):
    """A context in which DEVICE is the current one."""
    return torch.cuda.device(device) if device.type == "cuda" and torch.cuda.current_device() != device.index else _here


def library_for(device):
    """The library for DEVICE, which is current."""
    return _seen.__dict__.get(device) or _first_on_thread(device)


def _first_on_thread(device):
    """Likewise.  On a thread that is new to CUDA, makes its context current."""
    global _c
    if device.type == "cuda":
        torch.cuda.Event().record()
    with _opening:
        if device not in _libraries:
            _c = _c or _bind(find())
            _libraries[device] = _Library(_c, device)
        _seen.__dict__[device] = _libraries[device]
        return _libraries[device]


_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (lambda index: torch.cuda.current_stream(index).cuda_stream)


def _stream(device):
    """The address of the current stream."""
    return _raw_stream(device.index) if device.type == "cuda" else None


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
        BROKEN_PARTS: "the classes of the group's ranks, in their order, did not make up the vocabulary",
    }
    if bits:
        raise ValueError("linear_cross_entropy: since the last check() " + "; ".join(words[b] for b in words if bits & b))


# ---- one call ----


class Options(NamedTuple):
    """The options of a problem, in types that an operator of PyTorch can take."""

    reduction: str
    ignore_index: int
    label_smoothing: float
    z_loss: float
    softcap: float
    temperature: float
    max_counted: int
    mode: str
    budget: int
    flags: int
    grad_dtype: torch.dtype  # of dweight and dbias


def _tf32():
    """Whether F.linear on a GPU multiplies fp32 as TF32.  PyTorch's older questions raise where its newer settings were used."""
    try:
        return torch.backends.cuda.matmul.fp32_precision == "tf32"
    except AttributeError:  # before PyTorch 2.9
        return torch.backends.cuda.matmul.allow_tf32


_problems = {}  # made before: what tells one from another, and its fields


def problem(wants, options, dtype, labels, tokens, weight_shape, strides, beta):
    """The fields of a problem, as a hashable key.  STRIDES: of input, weight and dweight."""
    tf32 = dtype == torch.float32 and _tf32()  # as F.linear: when it runs
    asked = wants, options, dtype, labels, tokens, weight_shape, strides, beta, tf32
    fields = _problems.get(asked)
    if fields is None:
        if len(_problems) >= MOST_PLANS:
            _problems.clear()
        fields = _problems[asked] = _fields_of(*asked)
    return fields


def _fields_of(wants, options, dtype, labels, tokens, weight_shape, strides, beta, tf32):
    fields = {"wants": wants, "tokens": tokens, "grad_weight_beta": beta}
    fields["dtype"], fields["label_dtype"] = DTYPES[dtype], LABEL_DTYPES[labels]
    fields["grad_weight_dtype"], fields["reduction"] = DTYPES[options.grad_dtype], REDUCTIONS[options.reduction]
    fields["vocab"], fields["hidden"] = weight_shape
    fields["input_stride"], fields["weight_stride"], fields["grad_weight_stride"] = strides
    fields["flags"] = options.flags | (ALLOW_TF32 if tf32 else 0)
    for name in "ignore_index max_counted label_smoothing z_loss softcap temperature".split():
        fields[name] = getattr(options, name)
    return tuple(fields.items())


class Parts(NamedTuple):
    """A vocabulary whose classes several ranks hold."""

    begin: int  # this rank's first class
    total: int  # how many classes all have
    partials: torch.Tensor | None  # [ranks, N, PARTIAL_NUMBERS]: of all; None in the first run, which makes this rank's
    exchange: object = None  # of a run that is both: `ranks`, `chunk` (tokens), `budget`, begin(own, all), step(...)


def _rows(matrix, dtype):
    """MATRIX as the library reads it: of the type, its rows dense and aligned.  Itself where it is so already."""
    if matrix.dtype != dtype:
        matrix = matrix.detach().to(dtype)
    if matrix.stride(1) != 1 and matrix.size(1) > 1 or matrix.stride(0) < matrix.size(1) or matrix.data_ptr() % 16:
        return matrix.detach().clone(memory_format=torch.contiguous_format)
    return matrix


def _vector(vector, dtype):
    if vector is None:
        return None
    vector = vector.detach().to(dtype).contiguous()
    return vector.clone() if vector.data_ptr() % 16 else vector


def _stride(matrix):
    return max(matrix.stride(0), matrix.size(1))  # the stride of a single row may be any number


def _address(tensor):
    return None if tensor is None else tensor.data_ptr()


@contextmanager
def _calling(exchange, buffers):
    """A context in which a run with BUFFERS calls exchange.step; what that raises comes out of the run."""
    raised = []

    def call(context, step, first, count, stream):
        try:
            exchange.step(step, first, count)
        except BaseException as error:  # no frame of C may be unwound
            raised.append(error)
        return len(raised)

    try:
        buffers.exchange = _EXCHANGE(call)
        yield
    except Error:
        if raised:
            raise raised[0] from None
        raise


def run(wants, options, input, weight, bias, labels, class_weights, upstream, above=None, weight_sum=None, bias_sum=None, parts=None):
    """One lce_run: the loss, the gradients of input, weight and bias, and the entropies (the first run of a vocabulary in
    parts: its partial result); None for each that is not in WANTS.

    ABOVE is the gradient of the entropies.  Where WEIGHT_SUM is given, the gradients of weight and bias are added to it and
    to BIAS_SUM, and are these.
    """
    with on(input.device):
        library = library_for(input.device)
        dtype, device = input.dtype, input.device
        x, w, b = _rows(input, dtype), _rows(weight, dtype), _vector(bias, dtype)
        labels, class_weights = labels.contiguous(), _vector(class_weights, torch.float32)
        adds = weight_sum is not None and bool(wants & GRAD_WEIGHT)
        loss = dx = dw = db = entropy = partial = partials = None
        if wants & LOSS:
            loss = torch.empty(labels.shape if options.reduction == "none" else (), dtype=torch.float32, device=device)
        if wants & GRAD_INPUT:
            dx = torch.empty(input.shape, dtype=dtype, device=device)
        if wants & GRAD_WEIGHT:
            dw = weight_sum if adds else torch.empty(weight.shape, dtype=options.grad_dtype, device=device)
        if wants & GRAD_BIAS:
            db = bias_sum if adds else torch.empty(bias.shape, dtype=options.grad_dtype, device=device)
        if wants & ENTROPY:
            entropy = torch.empty(labels.shape, dtype=torch.float32, device=device)
        if wants & PARTIAL:
            entropy = partial = torch.empty((*labels.shape, PARTIAL_NUMBERS), dtype=torch.float32, device=device)
        strides = _stride(x), _stride(w), 0 if dw is None else _stride(dw)
        fields = problem(wants, options, dtype, labels.dtype, labels.numel(), weight.shape, strides, float(adds))
        chunk, budget, exchange = 0, options.budget, parts and parts.exchange
        if exchange:
            numbers = torch.empty((1 + exchange.ranks, labels.numel(), PARTIAL_NUMBERS), dtype=torch.float32, device=device)
            partial, partials = numbers[0], numbers[1:]
            chunk, budget = exchange.chunk, exchange.budget
            fields += (("flags", dict(fields)["flags"] | EXCHANGE),)
        elif parts:
            partials = parts.partials
        if parts:
            fields += ("vocab_begin", parts.begin), ("vocab_total", parts.total), ("parts", 0 if partials is None else len(partials))
        plan = library.plan(fields, MODES[options.mode], budget, chunk)
        size = plan.info.workspace_size
        workspace = torch.empty(size, dtype=torch.uint8, device=device)
        order = x, w, b, labels, class_weights, upstream, loss, dx, dw, db, library.flag, workspace
        stream = _stream(device)
        plan.used(stream)
        own = None if wants & PARTIAL else entropy
        buffers = _Buffers(*map(_address, order), size, *map(_address, (own, above, partial, partials)))
        if exchange:
            exchange.begin(partial, partials.flatten(0, 1))
        with _calling(exchange, buffers) if exchange else _here:
            library.check(library.c.lce_run(plan.handle, C.byref(buffers), stream))
        return loss, dx, dw, db, entropy


def scale(gradient, factor):
    """GRADIENT, a dense matrix on a GPU, times FACTOR, one number of fp32, in place.  Where that is 1, it is not gone over."""
    with on(gradient.device):
        library, matrix = library_for(gradient.device), (gradient.data_ptr(), gradient.numel(), DTYPES[gradient.dtype])
        library.check(library.c.lce_scale(library.handle, *matrix, factor.data_ptr(), _stream(gradient.device)))


def workspace_size(wants, options, dtype, tokens, hidden, vocab, device):
    """The bytes that a `run` of dense matrices allocates for its workspace."""
    fields = problem(wants, options, dtype, torch.int64, tokens, (vocab, hidden), (hidden, hidden, hidden), 0.0)
    with on(device):
        return library_for(device).plan(fields, MODES[options.mode], options.budget).info.workspace_size
