"""A part of kernels_check.py: the products that skip ignored tokens (Hopper), and cuBLASLt's in their place.

Sizes are such that every kind of tile occurs, whole, cut and split over k, of either width; counts go from none to all. The
workspace is full of NaN before.
"""
import kernels_lce as K
from kernels_case import NAMES, Case, differ, mine, problem, report
from kernels_parts import together

CUBLASLT, OURS = K.CUBLASLT, K.OURS

SHAPES = [(1, 64, 256), (63, 72, 300), (130, 328, 1003), (300, 264, 2056), (600, 520, 777)]
WAYS = {
    "plain": ({}, {}),
    "fp32 logits": ({"flags": K.F32_LOGITS}, {"bias": True}),
    "accumulated": ({"flags": K.F32_ACCUMULATE, "grad_weight_beta": 0.5}, {"weights": True}),
    "main gradient": ({"grad_weight_dtype": K.F32, "grad_weight_beta": 1.0, "reduction": K.SUM}, {"upstream": True}),
    "weighted main gradient": ({"grad_weight_dtype": K.F32, "grad_weight_beta": 0.5}, {}),
    "added to": ({"grad_weight_beta": -1.0, "reduction": K.NONE}, {"upstream": True, "bias": True}),
}


def one(library, memory, shape, name, dtype, ignored):
    values, extras = WAYS[name]
    n = shape[0]
    case = Case(library, memory, problem(library, *shape, dtype=dtype, **values), ignored=ignored, **extras)
    for chunk in sorted({n, min(n, 128), min(n, 200)}):
        what = f"products, {name}, {NAMES[dtype]}, {shape}, {ignored} ignored"
        for width, tiles in {"wide": K.WIDE_TILES, "narrow": K.NARROW_TILES}.items():
            case.problem.proposals = OURS | tiles
            got = case.check(f"{what}, {width} tiles", chunk=chunk)
            report(f"the same bits again, {what}, {width} tiles", differ(got, case.run(chunk=chunk)[0]))
        case.problem.proposals = CUBLASLT
        case.check(f"{what}, cuBLASLt", chunk=chunk)
        case.problem.proposals = CUBLASLT | OURS
        case.check(f"{what}, cuBLASLt beside our logits", chunk=chunk)


def strided(library, memory):
    """Rows further apart than they are long; and so that no copy of tiles can be had."""
    for apart in (8, 2):
        strides = {name: 96 + apart * i for i, name in enumerate(
            ("input_stride", "weight_stride", "grad_input_stride", "grad_weight_stride"), 1)}
        values = dict(strides, dtype=K.BF16, proposals=OURS)
        case = Case(library, memory, problem(library, 150, 96, 1003, **values), ignored=0.3)
        case.check(f"products, rows {apart} apart", chunk=100)


def wanted(library, memory):
    """Each product alone, and none of those that nobody wants."""
    for wants in (K.LOSS, K.GRAD_INPUT, K.GRAD_WEIGHT, K.GRAD_BIAS, K.GRAD_INPUT | K.GRAD_BIAS):
        values = dict(dtype=K.BF16, proposals=OURS, wants=wants)
        Case(library, memory, problem(library, 150, 64, 1003, **values), ignored=0.3).check(f"products, wants {wants}", chunk=100)


def promised(library, memory):
    """The caller says how many count: too few, just so, all."""
    for count, flag in ((250, 0), (300, 0), (100, 2)):
        values = dict(dtype=K.BF16, proposals=OURS)
        case = Case(library, memory, problem(library, 300, 64, 1003, **values), ignored=0.3, reference=False)
        case.problem.max_counted = count
        got, seen, problems = case.run(chunk=128)
        report(f"products, {count} promised", problems + ([] if seen == flag else [f"error flag {seen}, not {flag}"]))


def in_parts(library, memory, quick):
    """A vocabulary whose parts two or three ranks hold: exchanged in one run, and in two runs; one part too small for a tile of ours."""
    ways = {
        "plain": ({}, {}),
        "entropies": ({"wants": 31, "reduction": K.NONE, "temperature": 0.7}, {"upstream": True, "above": True}),
        "fp32 logits, bias": ({"wants": 31, "flags": K.F32_LOGITS}, {"bias": True, "above": True}),
        "fp32 dweight": ({"grad_weight_dtype": K.F32, "reduction": K.SUM}, {"upstream": True}),
    }
    for i, (name, (values, extras)) in enumerate(ways.items()):
        for j, (n, h, v, cuts) in enumerate(((300, 264, 2056, (1003,)), (600, 72, 1500, (512, 900)), (130, 328, 700, (130,)))):
            for ignored in ((0.0, 0.6, 1.1)[(i + j) % 3],) if quick else (0.0, 0.6, 1.1):
                if not mine():
                    continue
                case = Case(library, memory, problem(library, n, h, v, dtype=K.BF16 if (i + j) % 2 else K.F16, proposals=OURS, **values),
                            ignored=ignored, scale=0.5, **extras)  # logits whose rounding to 16 bits leaves the entropies 1.5 %
                for exchanged in (False, True):
                    got, flag, problems = together(case, cuts, exchanged, chunk=200)
                    again = together(case, cuts, exchanged, chunk=200)[0]
                    problems += case.compare(got) + ([f"error flag {flag}"] if flag else []) + differ(got, again)
                    report(f"products in parts, {name}, {NAMES[case.problem.dtype]}, {(n, h, v)}, {ignored} ignored, exchanged {exchanged}", problems)


LENT = {
    "plain": ({}, {}),
    "fp32 logits": ({"flags": K.F32_LOGITS}, {"bias": True}),
    "fp32 dweight": ({"grad_weight_dtype": K.F32, "reduction": K.SUM}, {"upstream": True, "weights": True}),
    "everything": ({"wants": 31, "temperature": 1.25, "label_smoothing": 0.2, "z_loss": 0.02, "softcap": 4.0, "ignore_index": 3, "reduction": K.NONE},
                   {"bias": True, "weights": True, "upstream": True, "above": True}),
}


def lent(library, memory, quick):
    """Logits in rows of dweight; their classes again at the end, in stages and in slabs in the workspace.  The last shape has
    parts of tiles: a sixth of its dweight has room for them."""
    if memory.stream is None:
        return  # of the GPU alone
    shapes = ((60, 64, 1000), (300, 264, 2056), (130, 72, 5003), (300, 264, 40000))
    for i, (n, h, v) in enumerate(shapes[1::2] if quick else shapes):
        for j, (name, (values, extras)) in enumerate(LENT.items()):
            for dtype in (K.BF16,) if quick else (K.F16, K.BF16):
                for ignored in ((0.0, 0.3, 0.9, 1.1)[(i + j + dtype) % 4],) if quick or v > 30000 else (0.0, 0.3, 0.9, 1.1):
                    if not mine():
                        continue
                    case = Case(library, memory, problem(library, n, h, v, dtype=dtype, **values), ignored=ignored, scale=min(1, 72 / h), **extras)
                    for chunk, slabs in ((8, 0), (16, 2)) if h < 100 else ((48, 0), (64, 3)):
                        case.problem.proposals = K.BORROW | OURS | slabs << K.SLAB_SHIFT | (K.NARROW_TILES if slabs else K.WIDE_TILES)
                        what = f"lent to products of ours, {(n, h, v)}, {name}, {NAMES[dtype]}, {ignored} ignored, slabs of {slabs}"
                        got = case.check(what, chunk=chunk)
                        report(f"the same bits again, {what}", differ(got, case.run(chunk=chunk)[0]))
                        # without borrowed rows slabs would be cut
                        report(f"logits in dweight, {what}", [] if (case.info[2] == v if slabs else case.borrows) else ["borrows nothing"])


def products(library, memory, quick):
    if memory.stream is not None:
        in_parts(library, memory, quick)
    for i, shape in enumerate(SHAPES if memory.stream is not None else SHAPES[:2]):  # of the GPU alone
        for j, name in enumerate(WAYS):
            for dtype in (K.BF16, K.F16):
                ignored = (0.0, 0.3, 0.9, 1.1)[(i + j + dtype) % 4]
                if (not quick or (i + j) % len(WAYS) in (0, 1 + dtype % 2)) and mine():
                    one(library, memory, shape, name, dtype, ignored)
    for group in (strided, wanted, promised):
        if mine():
            group(library, memory)
