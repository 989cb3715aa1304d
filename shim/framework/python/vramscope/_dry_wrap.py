"""_dry_wrap - wraps PyTorch's CUDA kernels, so that values are followed (_dry_values).

A kernel is replaced, in the dispatcher, by a function that calls it and then looks at what it wrote.  That is below autograd, autocast and
torch.compile's tracing, which do all as they would; a Python dispatch mode stands above autograd, which then takes other formulas for derivatives.  Nearly all kernels are
wrapped, because one may fill memory with zeros by another that is followed, and then write into it.

    computed    the operator is computed on the CPU where its inputs are followed
    comparing   likewise; what compares unknown floats is decided by _dry_rules
    choosing    likewise; indices that unknown values decide are filled by rule
    random      the numbers of another generator
    solving     likewise, but that it went well
    writing     everything else: what it wrote is not known any more
"""

import functools
import re
import warnings

import torch

from . import _dry_constant as constant
from . import _dry_reads as reads
from . import _dry_rules as rules
from ._dry_values import ASSUMED, KNOWN, MOST_FILLED, RULE, NoFunctions, Tensor, alias, compute, forget, is_capturing, is_small, mark_of, put, tensors, write

COMPUTED = set(
    """__lshift__ __rshift__ __ilshift__ __irshift__ _aminmax abs add addcmul all amax amin aminmax any arange bitwise_and bitwise_left_shift
    bitwise_not bitwise_or bitwise_right_shift bitwise_xor bucketize cat ceil clamp clamp_max clamp_min count_nonzero cumprod cumsum div
    exp eye fill flip floor floor_divide fmax fmin fmod gather gcd histc index index_add index_copy index_fill index_select lcm lerp linspace log
    logical_and logical_not logical_or logical_xor masked_fill masked_scatter masked_select maximum mean minimum mul neg pow prod put range reciprocal remainder
    repeat_interleave roll round rsqrt rsub scatter scatter_add scatter_reduce searchsorted sgn sign sqrt sub sum take tril tril_indices triu
    triu_indices trunc where zero _index_put_impl nan_to_num cummax cummin _cummax_helper _cummin_helper square trace nonzero_static
    relu _amp_update_scale""".split()
)
COMPARING = set("eq ne lt le gt ge isin".split())
NEVER = set("isnan isposinf isneginf".split())  # of unknown floats
CHOOSING = set("topk sort argsort argmax argmin max min multinomial".split())
COUNTING = set("bincount repeat_interleave".split())
RANDOM = set("random uniform bernoulli exponential normal randperm".split())
# what none of these makes is zeros of which it then computes a single float, and they are called most; but for those that write into what is there
LEFT = re.compile(
    r"empty|_foreach_[a-z0-9]+($|\.)|_fused_dropout|(add)?mm($|\.)|b?addb?mm($|\.)|bmm|convolution|cudnn_(conv|batch|rnn)|_cudnn_rnn|native_(layer|group|batch)_norm|"
    r"_?(log_)?softmax|gelu|silu|relu|_scaled_dot|_flash|_efficient_attention|native_dropout|_use_|_to_sparse|_assert"
)
# these say where a tensor lies, and write nothing; or hand a number that lies on the device to a schema's number, which a boxed call refuses
_PLACES = re.compile(r"set_|is_set_to|as_strided|view|resize|pow\.(Scalar|Tensor_Tensor_out)")
_UNSAID = "running_mean", "running_var"  # are written, and schemas do not say so
_NUMBERS = {int, float, bool, complex}
_steps = 1  # of gradient scalers


class _Unknown(Exception):
    pass


def _is_written(argument):
    return argument.alias_info is not None and argument.alias_info.is_write or argument.name in _UNSAID


class Operator:
    """What of an operator's schema says which arguments are tensors, and which of them it writes."""

    def __init__(self, op):
        self.op = op
        arguments = op._schema.arguments
        self.name = op._schema.name[6:]
        self.is_in_place = self.name.endswith("_") and not self.name.startswith("__") or self.name in ("__ilshift__", "__irshift__")
        self.base = self.name[:-1] if self.is_in_place and self.name.endswith("_") else self.name
        self.tensors = [at for at, argument in enumerate(arguments) if str(argument.type) == "Tensor" and not argument.kwarg_only]
        self.written = [at for at, argument in enumerate(arguments) if _is_written(argument) and not argument.kwarg_only]
        self.outs = [argument.name for argument in arguments if _is_written(argument) and argument.kwarg_only]
        self.writes = bool(self.written or self.outs)
        self.info = next((at for at, result in enumerate(op._schema.returns) if result.name == "info"), None)

    def targets(self, args, kwargs):
        for at in self.written:
            if at < len(args):
                yield args[at]
        for name in self.outs:
            if name in kwargs:
                yield kwargs[name]

    def with_tensors(self, args):
        """ARGS with tensors for a program's numbers, which the dispatcher hands over as such; of the type that gives the same result's."""
        for at in self.tensors:
            if at < len(args) and type(args[at]) in _NUMBERS:
                value, dtype = args[at], next((t.dtype for t in args if isinstance(t, Tensor)), None)
                stays = dtype is not None and (dtype.is_complex or dtype.is_floating_point and type(value) is not complex or type(value) is bool or dtype is not torch.bool and type(value) is int)
                with NoFunctions():
                    t = torch.scalar_tensor(value, dtype=dtype if stays else torch.tensor(value).dtype, device="cpu")
                args = (*args[:at], t, *args[at + 1 :])
        return args


# ---- following ----


def _certainty(o, args, kwargs):
    """The mark of what an operator computes of these arguments; raises where it can't be computed."""
    mark = KNOWN
    for name, value in [(None, value) for value in args] + list(kwargs.items()):
        if name in o.outs:
            continue
        for t in tensors((value,)):
            if not is_small(t):
                raise _Unknown
            if not t.is_cuda or not t.numel():
                continue
            its = mark_of(t) or (rules.mask(t) if t.dtype is torch.bool else None)
            if its is None:
                raise _Unknown
            if its[0] > mark[0]:
                mark = its
    return mark


def _give_up(o, out, args, kwargs):
    for t in tensors(o.targets(args, kwargs)) if o.writes else tensors((out,)):
        if t.is_cuda:
            forget(t)


def _follow(o, out, args, kwargs):
    """The mark of what was computed, or None."""
    try:
        if is_capturing():
            for t in tensors(o.targets(args, kwargs)) if o.writes else tensors((out,)):
                put(t, KNOWN)  # which says that a graph writes it
            raise _Unknown
        mark = _certainty(o, args, kwargs)
        outs = list(tensors(o.targets(args, kwargs))) if o.writes else list(tensors((out,)))
        if not all(is_small(t) for t in outs):
            raise _Unknown
        result = compute(o.op, args, kwargs)
        for t, host in zip(outs, tensors((result,))):
            if o.writes:
                put(t, mark)
            else:
                write(t, host, mark)
        return mark
    except Exception:
        _give_up(o, out, args, kwargs)
        return None


def _is_idle(o, args):
    """Whether nothing of an operator's first tensor is known, nor assumed where that is needed."""
    first = args[0] if args else None
    if type(first) in (list, tuple):
        first = first[0] if first else None
    return isinstance(first, Tensor) and first.is_cuda and first.dtype is not torch.bool and mark_of(first) is None and first.numel()


# ---- wrappers ----


def computed(o, call, keys, *args, **kwargs):
    inside, outer = reads.inside, reads.inside.target
    try:
        args = o.with_tensors(args)
        if o.is_in_place:
            target = args[0].data_ptr()
            if target and target == outer:
                return call(keys, *args, **kwargs)  # a part of an operator that is computed when it is done
            inside.target = target
        out = call(keys, *args, **kwargs)
    finally:
        inside.target = outer
    if _is_idle(o, args) and not o.outs:
        _give_up(o, out, args, kwargs)
        return out
    with NoFunctions():
        if not constant.follow(o, out, args):
            _follow(o, out, args, kwargs)
    return out


def filling(o, call, keys, t, *value):
    """fill_ and zero_: what was there does not matter."""
    out = call(keys, t, *value)
    if not is_small(t) or t.is_floating_point() and t.numel() > MOST_FILLED:  # parameters and their states are no masks
        forget(t)
        return out
    with NoFunctions():
        mark = KNOWN
        if value and isinstance(value[0], Tensor) and value[0].is_cuda:
            mark = mark_of(value[0])
        if mark is None or reads.inside.foreign or _is_filler(t, value):
            forget(t)
        else:
            if t.numel() and not is_capturing():
                compute(o.op, (t, *value), {})
            put(t, mark)
    return out


def _is_filler(t, value):
    """Whether this may be what memory is filled with that has no contents, under deterministic algorithms."""
    if not value or not torch.are_deterministic_algorithms_enabled():
        return False
    value = value[0]
    return isinstance(value, (int, float)) and (value != value or value is True or t.dtype is torch.bool or not t.is_floating_point() and value == torch.iinfo(t.dtype).max)


def _compared(o, out, args):
    """Contents for OUT where floats that are compared are unknown."""
    floats = [t for t in args if isinstance(t, Tensor) and t.is_floating_point() and t.is_cuda and t.numel() and mark_of(t) is None]
    if not floats or not out.numel() or is_capturing():
        return
    same = len(args) > 1 and args[0] is args[1]
    numbers = [alias(t) if t.is_cuda else t for t in args if isinstance(t, Tensor) and t.numel() == 1 and not any(t is f for f in floats)]
    numbers += [torch.tensor(value, device="cpu") for value in args if type(value) in _NUMBERS]
    endless = any(not torch.isfinite(number).all() for number in numbers)
    if not (same or endless or out.numel() == 1 or reads.inside.depth):
        if is_small(out):
            rules.mask(out)
        return
    if not is_small(out) and not (same or endless):
        return
    ones = [torch.ones((), dtype=t.dtype, device="cpu") if any(t is f for f in floats) else t for t in args]
    answer = bool(compute(o.op, ones, {}).all())
    decided = same or endless
    value = answer if decided or rules.BOOLEAN or reads.inside.depth else not answer
    if decided:
        constant.put_all(out, value)
    else:
        write(out, torch.tensor(value, device="cpu"), (ASSUMED, str(value).lower()))


def comparing(o, call, keys, *args, **kwargs):
    args = o.with_tensors(args)
    out = call(keys, *args, **kwargs)
    with NoFunctions():
        if constant.follow(o, out, args):
            return out
        mark = None if _is_idle(o, args) else _follow(o, out, args, kwargs)
        if mark is None:
            _give_up(o, out, args, kwargs)
            if not o.writes:
                _compared(o, out, args)
        elif mark[1] == rules.TOKEN and rules.SECOND and o.base in ("eq", "ne", "isin") and not o.writes and out.numel():
            alias(out).fill_(o.base != "ne")
    return out


def never(o, call, keys, *args, **kwargs):
    out = call(keys, *args, **kwargs)
    with NoFunctions():
        if _follow(o, out, args, kwargs) is None and not o.writes:
            constant.put_all(out, False)
    return out


def _choices(o, args, kwargs):
    """(dimension or None, how many there are to choose from)."""
    t = args[0]
    dim = kwargs.get("dim")
    if o.base == "multinomial":
        dim = -1
    elif o.base == "topk":
        dim = args[2] if len(args) > 2 else kwargs.get("dim", -1)
    elif dim is None and len(args) > 1 and o.base not in ("sort", "argsort"):
        dim = args[1]
    elif dim is None and o.base in ("sort", "argsort"):
        dim = args[2] if len(args) > 2 else -1
    return dim, (t.numel() if dim is None else t.size(dim) if t.dim() else 1)


def choosing(o, call, keys, *args, **kwargs):
    with reads.reading():  # multinomial looks whether probabilities are good ones
        out = call(keys, *args, **kwargs)
    with NoFunctions():
        mark = None if _is_idle(o, args) or o.base == "multinomial" else _follow(o, out, args, kwargs)
        if mark is not None or o.writes:
            if mark is None:
                _give_up(o, out, args, kwargs)
            return out
        _give_up(o, out, args, kwargs)
        t = out[-1] if isinstance(out, tuple) else out
        if t.dtype is torch.int64 and is_small(t) and t.numel() and not is_capturing() and (args[0].is_floating_point() or o.base != "max"):
            dim, choices = _choices(o, args, kwargs)
            keeps = t.dim() == args[0].dim()
            rules.indices(t if keeps or not t.dim() else t.unsqueeze(-1), dim if keeps and dim is not None else -1, choices)
    return out


def random(o, call, keys, *args, **kwargs):
    out = call(keys, *args, **kwargs)
    with NoFunctions():
        for t in tensors(o.targets(args, kwargs)):
            forget(t)
            if is_small(t) and t.numel() and not is_capturing():
                try:
                    compute(o.op, args, {**kwargs, "generator": rules.generator()})
                    put(t, (ASSUMED, "other random numbers"))
                except Exception:
                    pass
    return out


def writing(o, call, keys, *args, **kwargs):
    args = o.with_tensors(args)
    out = call(keys, *args, **kwargs)
    _give_up(o, out, args, kwargs)
    return out


def foreign(o, call, keys, *args, **kwargs):
    """Another library's: what it fills with zeros it may write into by kernels of its own."""
    before, reads.inside.foreign = reads.inside.foreign, True
    try:
        return writing(o, call, keys, *args, **kwargs)
    finally:
        reads.inside.foreign = before


def solving(o, call, keys, *args, **kwargs):
    """How a factorization went is what the stand-in for the library wrote: 0."""
    out = writing(o, call, keys, *args, **kwargs)
    if is_small(out[o.info]):
        with NoFunctions():
            put(out[o.info], KNOWN)
    return out


def unscaling(o, call, keys, gradients, found, inverse):
    """A gradient scaler looks for overflows."""
    call(keys, gradients, found, inverse)
    with NoFunctions():
        value, mark = rules.overflows(_steps)
        if is_capturing():
            put(found, KNOWN)
        else:
            write(found, torch.tensor(value, device="cpu"), mark)


def rescaling(o, call, keys, *args, **kwargs):
    global _steps
    _steps += 1
    return computed(o, call, keys, *args, **kwargs)


def _kind(o, key):
    """What is sparse has no memory of its own: beside its count, what its kernels compute is not known."""
    if o.op.namespace != "aten":
        return foreign
    if key != "CUDA" and o.name != "_coalesce":
        return writing
    if o.name in reads.WRAPPERS:
        return writing if o.outs else reads.WRAPPERS[o.name]
    if o.name == "_amp_foreach_non_finite_check_and_unscale_":
        return unscaling
    if o.name == "_amp_update_scale_":
        return rescaling
    if o.info is not None:
        return solving
    if o.base in COUNTING and not o.writes:
        return functools.partial(reads.counting, _follow)
    if o.name in ("fill_", "zero_"):
        return filling
    for names, kind in ((COMPUTED, computed), (COMPARING, comparing), (NEVER, never), (RANDOM, random), (CHOOSING, choosing)):
        if o.base in names:
            return kind
    return writing


def _wrapper(op, call, key):
    o = Operator(op)
    return functools.partial(_kind(o, key), o, call)


_library = None


KEYS = "CUDA", "SparseCUDA", "SparseCsrCUDA"


def _operators(key):
    for name in torch._C._dispatch_get_registrations_for_dispatch_key(key):
        if name.startswith("aten::") and (key != "CUDA" or not _PLACES.match(name[6:])):
            base, _, overload = name[6:].partition(".")
            op = getattr(getattr(torch.ops.aten, base), overload or "default")
            if not op.is_view and (_may_mislead(op) if key == "CUDA" else _computes(op)):
                yield op
    if key == "CUDA":
        yield torch.ops.aten.copy_.default


def _may_mislead(op):
    return not LEFT.match(op._name[6:]) or any(map(_is_written, op._schema.arguments))


def _computes(op):
    """Not what makes a sparse tensor of others, or tells of one."""
    return not re.match(r"_?(indices|values|coalesced_|nnz|dim[IV]|sparse_dim|dense_dim|is_coalesced)$|c(row|col)_indices|(row|col)_indices|empty|copy_|_sparse_coo|resize|sparse_resize", op._schema.name[6:])


def _letting_go(wrapper):
    """WRAPPER; what it raises has none of our frames, which would hold tensors for as long as it is held."""

    def letting_go(keys, *args, **kwargs):
        try:
            return wrapper(keys, *args, **kwargs)
        except BaseException as error:
            args = kwargs = None
            traceback = error.__traceback__.tb_next
            while traceback and traceback.tb_frame.f_globals.get("__package__") == __package__:
                traceback = traceback.tb_next
            raise error.with_traceback(traceback)

    return letting_go


def _replace(library, op, key):
    """Since 2.9 a kernel can be had from the dispatcher, and replaced."""
    wrapper = _wrapper(op, torch.library.get_kernel(op, key).call_boxed, key)
    library.impl(op._name.partition("::")[2], _letting_go(wrapper), key, with_keyset=True, allow_override=True)


def _precede(library, op, key):
    """Before, a function is put in front of the kernels of all devices, under a key that each call passes, and leaves others' alone."""
    behind, its, redispatch = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect), getattr(torch._C.DispatchKey, key), op._handle.redispatch_boxed
    wrapper, with_tensors = _wrapper(op, redispatch, key), Operator(op).with_tensors

    def preceding(keys, *args, **kwargs):
        if keys.has(its):
            return wrapper(keys & behind, *args, **kwargs)
        return redispatch(keys & behind, *with_tensors(args), **kwargs)

    library.impl(op._name.partition("::")[2], _letting_go(preceding), "BackendSelect", with_keyset=True)


_put_in = _replace if hasattr(torch.library, "get_kernel") else _precede


_OWN = "aten c10d symm_mem fsdp quantized quantization prims inductor _inductor_test vramscope".split()


def _wrap_foreign():
    """Operators of libraries that were loaded, each once."""
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("CUDA"):
        space, _, rest = name.partition("::")
        if name in _foreign or space in _OWN:
            continue
        base, _, overload = rest.partition(".")
        _foreign[name] = torch.library.Library(space, "IMPL")
        try:
            _put_in(_foreign[name], getattr(getattr(getattr(torch.ops, space), base), overload or "default"), "CUDA")
        except (AttributeError, RuntimeError):
            pass  # it has no kernel that could be called


_foreign = {}
_load_library = torch.ops.load_library


def _load(path):
    _load_library(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _wrap_foreign()


def install():
    global _library
    library = torch.library.Library("aten", "IMPL")
    taken = set() if _put_in is _replace else set(torch._C._dispatch_get_registrations_for_dispatch_key("BackendSelect"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for key in KEYS:
            for op in list(_operators(key)):
                if op._name not in taken:
                    _put_in(library, op, key)
                if _put_in is _precede:
                    taken.add(op._name)
    _library = library
    torch.ops.load_library = _load
    reads.install()
