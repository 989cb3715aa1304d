"""_dry_rules - what is assumed of values that only a GPU computes.  All such rules stand here.

                            first assumption                       second
    a float                 1.0, and a millionth less each time    0.5
                            that its line reads one: losses fall
    NaN, infinity           there is none                          there is none
    a boolean, alone        as 1.0 compares; else true             the other answer
    a mask                  all true                               half are, evenly spread
                            VRAMSCOPE_DRY_KEEP=SHARE: that share, evenly spread, under both
    a whole number          1                                      2
    top-k, argmax, sort,    distinct in each row and evenly over   likewise, and the fullest gets twice its share
    multinomial: indices    all that there are to choose from
                            VRAMSCOPE_DRY_SKEW=F: the fullest gets F times its share, under both
    a token (of more than   equals nothing that it is compared     equals all of it: a generation ends
    1024 to choose from)    with by accident: from the middle
    a gradient scaler       finds no overflow                      finds one in the first step
                            VRAMSCOPE_DRY_OVERFLOW=N: in the first N steps, under both
    random numbers          of another generator                   likewise
    unique                  all differ                             half do

A boolean that a line reads for the 10000th time is the other one, once: a loop until something converges ends.
"""

import os

import torch

from ._dry_values import ASSUMED, alias, put

TOKENS, PATIENCE = 1024, 10000
SECOND = os.environ.get("VRAMSCOPE_DRY_ASSUME") == "second"
TOKEN = "a token"


def _number(name, otherwise):
    try:
        return float(os.environ[name])
    except (KeyError, ValueError):
        return otherwise


KEEP = min(1.0, max(0.0, _number("VRAMSCOPE_DRY_KEEP", 0.5 if SECOND else 1.0)))
SKEW = max(1.0, _number("VRAMSCOPE_DRY_SKEW", 2.0 if SECOND else 1.0))
OVERFLOWS = int(_number("VRAMSCOPE_DRY_OVERFLOW", 1 if SECOND else 0))
FLOAT = 0.5 if SECOND else 1.0
WHOLE = 2 if SECOND else 1
BOOLEAN = not SECOND


def kept():
    return "all true" if KEEP == 1 else "none true" if KEEP == 0 else f"{KEEP:.4g} true"


def share_of(count):
    return round(KEEP * count)


def mask(t):
    """T, a mask of which nothing is known, gets contents; its mark."""
    host, count = alias(t), t.numel()
    if count == 1:
        host.fill_(BOOLEAN)
        mark = (ASSUMED, str(BOOLEAN).lower())
    elif KEEP in (0, 1):
        host.fill_(bool(KEEP))
        mark = (ASSUMED, kept())
    else:
        at = (torch.arange(count + 1, dtype=torch.float64, device="cpu") * KEEP + 0.5).floor_()
        host.copy_((at[1:] > at[:-1]).view(t.size()))
        mark = (ASSUMED, kept())
    put(t, mark)
    return mark


def scalar(dtype):
    """(what a value of DTYPE is when it is read, how that is said)."""
    value = BOOLEAN if dtype is torch.bool else FLOAT if dtype.is_floating_point else complex(FLOAT) if dtype.is_complex else WHOLE
    return value, str(value).lower()


def read_again(value, times):
    """VALUE, where its line read one TIMES before: the best so far is kept, and nobody stops early."""
    return value - min(times, PATIENCE) * 1e-6 if type(value) is float and not SECOND else value


def fill(host):
    """HOST, memory of the CPU that an unknown tensor is copied to, gets what is read from it; how that is said."""
    if host.dtype is torch.bool and host.numel() > 1:
        at = (torch.arange(host.numel() + 1, dtype=torch.float64, device="cpu") * KEEP + 0.5).floor_()
        host.copy_((at[1:] > at[:-1]).view(host.size()))
        return kept()
    value, said = scalar(host.dtype)
    host.fill_(value)
    return said


def chosen(rows, picks, choices):
    """Indices of ROWS times PICKS of CHOICES, as a router that is balanced, or skewed, would give them; and how that is said."""
    start, skew = choices // 2, SKEW if rows * picks >= choices > picks else 1.0
    if skew == 1:
        flat = torch.arange(start, start + rows * picks, device="cpu") % choices
        said = TOKEN if choices > TOKENS and picks == 1 else f"evenly over {choices}"
        return flat.view(rows, picks), said
    full = min(rows, round(skew * rows * picks / choices))
    others = (torch.arange(rows * picks - full, device="cpu") % (choices - 1) + start + 1) % choices
    flat = torch.empty(rows, picks, dtype=torch.int64, device="cpu")
    flat[:full, 0] = start
    flat[:full, 1:] = others[: full * (picks - 1)].view(full, picks - 1)
    flat[full:] = others[full * (picks - 1) :].view(rows - full, picks)
    return flat, f"over {choices}, the fullest {skew:g} times its share"


def indices(t, dim, choices):
    """T, indices along DIM into CHOICES that unknown values decide, gets contents."""
    if t.dim() == 0:
        flat, said = chosen(1, 1, choices)
        alias(t).fill_(flat.item())
    else:
        moved = alias(t).movedim(dim, -1)
        flat, said = chosen(moved.numel() // max(1, moved.size(-1)), moved.size(-1), choices)
        moved.copy_(flat.view(moved.size()))
    put(t, (ASSUMED, said))


_generator = None


def generator():
    """Another one than the program's, whose numbers stay as they would be."""
    global _generator
    if _generator is None:
        _generator = torch.Generator(device="cpu")
        _generator.manual_seed(0)
    return _generator


def distinct(count):
    """(how many of so many unknown values differ, how that is said)."""
    return (max(1, count // 2), "half of them differ") if SECOND and count else (count, "all differ")


def overflows(step):
    """What a gradient scaler finds in its STEPth step, from 1; its mark."""
    found = step <= OVERFLOWS
    return float(found), (ASSUMED, "an overflow" if found else "no overflow")
