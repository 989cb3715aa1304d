"""_dry_host - large tensors of floats on the host are addresses without contents: nothing writes them, so they take no memory.

To build a model of 72 billion parameters on the host takes more memory than the machine that runs `vramscope fit` may have.  No size
depends on these floats.  So the CPU's kernels that write do nothing where what they write are more than LARGE floats, and new results of
such are memory that nobody has touched.  Kernels that are not in these lists, and what is read of a file, write as ever.  Whole numbers and
booleans keep their contents, whatever their size.

Random numbers that are not made are passed over: what the program draws after them, which may decide sizes, is as in a real run.
"""

import ctypes
import functools
import warnings

import torch

from ._dry_wrap import Operator

LARGE = 1 << 20
_RANDOM = "normal_ uniform_ exponential_".split()
_IN_PLACE = """fill_.Scalar fill_.Tensor zero_ copy_ erfinv_ clamp_ clamp_min_ clamp_max_ mul_.Tensor add_.Tensor
sub_.Tensor div_.Tensor addcmul_ addcdiv_ lerp_.Scalar lerp_.Tensor sqrt_ rsqrt_ neg_ pow_.Scalar""".split()
_NEW = "mul.Tensor add.Tensor sub.Tensor div.Tensor sqrt rsqrt neg abs pow.Tensor_Scalar cat lerp.Scalar".split()
_LISTS = "_fused_adam_ _fused_adamw_ _fused_sgd_ _fused_adagrad_".split()
_library = None
_Tensor, _NoFunctions = torch.Tensor, torch._C.DisableTorchFunction


def _is_large(t):
    return isinstance(t, _Tensor) and t.numel() > LARGE and (t.is_floating_point() or t.is_complex())


def _in_place(o, call, keys, *args, **named):
    return args[0] if _is_large(args[0]) else call(keys, *o.with_tensors(args), **named)


# ---- random numbers ----


def _state_passed(state, count):
    """STATE as it is COUNT numbers later."""
    state = state.clone()
    ctypes.CDLL(None).simcuda_pass_numbers(ctypes.c_void_p(state.data_ptr()), ctypes.c_uint64(count))
    return state


def _taken(name, count):
    """Numbers that a kernel takes for so many elements, in units of what one takes: the last 16 of a normal distribution are made twice where they are no whole 16."""
    return count + (16 if name == "normal_" and count % 16 else 0)


_widths = {}  # of a kernel and a type: how many numbers an element takes; None where that could not be shown


def _width(name, dtype, call, keys):
    """Is found by trying: a tensor's worth of numbers is taken by the kernel and passed over by us."""
    if (name, dtype) not in _widths:
        _widths[name, dtype] = None
        taken = torch.Generator().manual_seed(1)
        before, small = taken.get_state(), torch.empty(1003, dtype=dtype, device="cpu")
        call(keys, small, generator=taken)
        for width in (1, 2):
            if before.numel() >= 24 + 8 * 624 and torch.equal(_state_passed(before, width * _taken(name, 1003)), taken.get_state()):
                _widths[name, dtype] = width
    return _widths[name, dtype]


def _random(o, call, keys, t, *args, **named):
    if not _is_large(t) or not t.is_contiguous():
        return call(keys, t, *args, **named)
    with _NoFunctions():
        width = _width(o.name, t.dtype, call, keys)
        if width is None:
            return call(keys, t, *args, **named)
        generator = named.get("generator")
        generator = torch.default_generator if generator is None else generator
        generator.set_state(_state_passed(generator.get_state(), width * _taken(o.name, t.numel())))
    return t


# ---- lists, and new tensors ----


def _in_lists(_, call, keys, first, *args, **named):
    return None if any(map(_is_large, first)) else call(keys, first, *args, **named)


def _meta(value):
    if isinstance(value, _Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta") if value.dim() else value.detach().to("meta")
    return type(value)(map(_meta, value)) if isinstance(value, (list, tuple)) else value


def _new(o, call, keys, *args, **named):
    """A result of the right shape and type, as the operator says them of tensors without memory."""
    first = args[0]
    if not (any(map(_is_large, first)) if isinstance(first, (list, tuple)) else _is_large(first) or len(args) > 1 and _is_large(args[1])):
        return call(keys, *o.with_tensors(args), **named)
    with _NoFunctions():
        result = o.op(*map(_meta, args), **named)
        return torch.empty_strided(result.size(), result.stride(), dtype=result.dtype, device="cpu")


def install():
    global _library
    _library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kernels of PyTorch's own are replaced
        for names, instead in ((_IN_PLACE, _in_place), (_RANDOM, _random), (_NEW, _new), (_LISTS, _in_lists)):
            for name in names:
                base, _, overload = name.partition(".")
                try:
                    op = getattr(getattr(torch.ops.aten, base), overload or "default")
                    kernel = torch.library.get_kernel(op, "CPU")
                except (AttributeError, RuntimeError):
                    continue  # not in this version
                _library.impl(name, functools.partial(instead, Operator(op), kernel.call_boxed), "CPU", with_keyset=True)
