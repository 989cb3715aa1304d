"""_dry_host - large tensors of floats on the host are addresses without contents: nothing writes them, so they take no memory.

A model of 72 billion parameters that is built on the host, or whose optimizer's states lie there, needs more memory than the machine has that asks whether
it fits, and minutes to be filled with random numbers.  No size hangs on that.  So the CPU's kernels that write do nothing where what they write are
more than LARGE floats, and new results of such are memory that nobody has touched.  A kernel that is not in these lists is called as ever: what it
writes takes memory.  So does what is read of a file.  Whole numbers and booleans keep their contents, whatever their size.
"""

import warnings

import torch

from ._dry_wrap import Operator

LARGE = 1 << 20
_IN_PLACE = """fill_.Scalar fill_.Tensor zero_ copy_ normal_ uniform_ exponential_ erfinv_ clamp_ clamp_min_ clamp_max_ mul_.Tensor add_.Tensor
sub_.Tensor div_.Tensor addcmul_ addcdiv_ lerp_.Scalar lerp_.Tensor sqrt_ rsqrt_ neg_ pow_.Scalar""".split()
_NEW = "mul.Tensor add.Tensor sub.Tensor div.Tensor sqrt rsqrt neg abs pow.Tensor_Scalar cat lerp.Scalar".split()
_LISTS = "_fused_adam_ _fused_adamw_ _fused_sgd_ _fused_adagrad_".split()
_library = None
_Tensor, _NoFunctions = torch.Tensor, torch._C.DisableTorchFunction


def _is_large(t):
    return isinstance(t, _Tensor) and t.numel() > LARGE and (t.is_floating_point() or t.is_complex())


def _in_place(o, call):
    def in_place(keys, *args, **named):
        return args[0] if _is_large(args[0]) else call(keys, *o.with_tensors(args), **named)

    return in_place


def _in_lists(_, call):
    def in_lists(keys, first, *args, **named):
        return None if any(map(_is_large, first)) else call(keys, first, *args, **named)

    return in_lists


def _meta(value):
    if isinstance(value, _Tensor):
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta") if value.dim() else value.detach().to("meta")
    return type(value)(map(_meta, value)) if isinstance(value, (list, tuple)) else value


def _new(o, call):
    """A result of the right shape and type, as the operator says them of tensors without memory."""

    def new(keys, *args, **named):
        first = args[0]
        if not (any(map(_is_large, first)) if isinstance(first, (list, tuple)) else _is_large(first) or len(args) > 1 and _is_large(args[1])):
            return call(keys, *o.with_tensors(args), **named)
        with _NoFunctions():
            result = o.op(*map(_meta, args), **named)
            return torch.empty_strided(result.size(), result.stride(), dtype=result.dtype, device="cpu")

    return new


def install():
    global _library
    _library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kernels of PyTorch's own are replaced
        for names, wrap in ((_IN_PLACE, _in_place), (_NEW, _new), (_LISTS, _in_lists)):
            for name in names:
                base, _, overload = name.partition(".")
                try:
                    op = getattr(getattr(torch.ops.aten, base), overload or "default")
                    kernel = torch.library.get_kernel(op, "CPU")
                except (AttributeError, RuntimeError):
                    continue  # not in this version
                _library.impl(name, wrap(Operator(op), kernel.call_boxed), "CPU", with_keyset=True)
