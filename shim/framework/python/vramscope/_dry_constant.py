"""_dry_constant - large masks all of whose elements are the same by rule: `torch.isinf(gradient).any()` makes one as large as the gradient.

Its contents are not written, which would take memory; its mark says what they are.  Such a mask gives another one, or one number, by the
operators below; for any other operator it is unknown.
"""

import torch

from ._dry_values import RULE, is_capturing, is_small, mark_of, put, tensors, write

WHY = "no NaN, no infinity"
_ELEMENTWISE = set("logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not mul eq ne".split())
_REDUCED = set("any all amax amin max min".split())
_SUMMED = set("sum count_nonzero".split())


def put_all(out, value):
    """OUT, a new mask, is VALUE everywhere."""
    if out.numel() and not is_capturing():
        if is_small(out):
            write(out, torch.tensor(value, device="cpu"), (RULE, WHY))
        else:
            put(out, (RULE, WHY, value), True)


def _value(t):
    mark = mark_of(t)
    return mark[2] if mark is not None and len(mark) > 2 else None


def follow(o, out, args):
    """Whether OUT, which operator O made of such masks, is followed by this."""
    masks = list(tensors(args))
    if not masks or o.writes or is_capturing() or not isinstance(out, torch.Tensor) or not out.numel():
        return False
    values = [_value(t) for t in masks]
    if None in values:
        return False
    if o.base in _ELEMENTWISE and out.dtype is torch.bool and len(masks) == len(args):
        put_all(out, bool(o.op(*[torch.tensor(value, device="cpu") for value in values])))
    elif o.base in _REDUCED | _SUMMED and is_small(out):
        value = values[0] if o.base in _REDUCED else values[0] * (masks[0].numel() // out.numel())
        write(out, torch.tensor(value, device="cpu"), (RULE, WHY))
    else:
        return False
    return True
