"""A part of kernels_check.py: odds in the place of bf16 logits (kernels/cuda/odds.cuh), where they are likely to go wrong.

The labels' share of dweight, for classes with one to all of the tokens. Rows whose label is more than 2^64 times less probable than
what odds are relative to. Odds by slabs in rows of dinput (where dweight is added to), and in rows of dweight, whose classes get
their odds again at the end, in stages whose last slab is narrower.
"""
import numpy as np
import kernels_lce as K
from kernels_case import EMULATED, Case, mine, problem, report
from kernels_regimes import BESIDE, EXACT, OURS, PEAKED, exponential

WIDE_SLABS = K.BORROW | OURS | 48 << K.SLAB_SHIFT  # of 3072 classes
LENT, LENT_SLABS = K.BORROW | OURS, K.BORROW | OURS | 4 << K.SLAB_SHIFT  # stages in later rows; slabs of 256 classes, two tiles, in the workspace
MAIN_GRAD = {"grad_weight_dtype": K.F32, "grad_weight_beta": 1.0}  # so that rows of dinput are lent
CELLS = ["flat", "words", *(f"peaked {loss}" for loss in PEAKED), "logits of +-1e4", "all by 1e4", "overflowing", "duplicates", "one counts"]
NAMES = {OURS: "ours", BESIDE: "beside", LENT: "lent", LENT_SLABS: "lent, slabs", WIDE_SLABS: "wide slabs"}
LABELLED = 4e-3  # of gradients; if one token of 600 is lost, the error is 4e-2
MANY = 6e-3  # of dweight over 7 or 13 chunks, most of which is not the labels'
ONCE = 2.5e-3  # of dweight over many chunks; if its labels' share is rounded in each of them, the error is 5e-3 or more


def skewed(n, v, random):
    """Labels of N tokens: class 0 has half of them, 1 has 70, 2 has 60, 3 has one."""
    labels = random.integers(4, v, n)
    for label, count in ((0, n // 2), (1, 70), (2, 60), (3, 1)):
        labels[random.permutation(np.flatnonzero(labels > 3))[:count]] = label
    return labels


def labelled(library, memory, what, shape, labels, whose, how=None, case=None, limit=LABELLED, **values):
    """Random inputs with LABELS, but where the case ignores a token: within LIMIT of the reference, and the same bits again."""
    if not mine():
        return
    n, h, v = shape
    how, values = how or {"chunk": n}, {"wants": 7, **values}
    case = Case(library, memory, problem(library, n, h, v, proposals=whose, **values), scale=0.05, **(case or {}),
                change=lambda given: given.update(labels=np.where(given["labels"] == -100, -100, labels).astype(given["labels"].dtype)))
    case.labels = case.values["labels"]
    name = f"{what}, {shape}, {NAMES[whose]} {values}"
    first = case.check(name, limit=limit, **how)
    again = case.run(**how)[0]
    report(f"{name}, again", [f"{key} has other bits" for key in first if first[key].tobytes() != again[key].tobytes()])
    if "grad_weight_beta" in values and whose & K.BORROW:
        report(f"by slabs, {name}", [] if case.info[2] < v else ["no segments"])
    elif whose in (LENT, LENT_SLABS):  # without borrowed rows slabs would be cut
        report(f"logits in dweight, {name}", [] if (case.borrows if whose == LENT else case.info[2] == v) else ["borrows nothing"])


def unlikely(library, memory, whose, quick, chunk=None, **values):
    """Every seventh token has a label that is e^-60 to e^-300 times as probable as the most probable class."""
    if not mine():
        return
    n, h, v = (150, 64, 768) if quick else (600, 128, 4096)
    random = np.random.default_rng(5)
    w = random.normal(0, 0.3, (v, h))
    x, labels = random.normal(0, 0.3, (n, h)), random.integers(0, v, n)
    for i in range(0, n, 7):
        direction = w[(labels[i] + 1) % v] - w[labels[i]]
        x[i] = direction * random.uniform(60, 300) / (direction @ direction)
    change = dict(input=K.to_type(x, K.BF16), weight=K.to_type(w, K.BF16), labels=labels)
    case = Case(library, memory, problem(library, n, h, v, proposals=whose, reduction=K.NONE, wants=7, **values), change=lambda given: given.update(change))
    case.check(f"labels that are next to impossible, {NAMES[whose]} {values}", limit=LABELLED, chunk=chunk or n)


def masked_slab(library, memory, whose, **values):
    """Labels among 300 last classes whose logits are -inf, and all others -120: a stage's slab has no odds but 0, and nothing that these are relative to."""
    if not mine():
        return
    n, h, v = 70, 72, 1564
    random = np.random.default_rng(7)
    w, x = random.normal(0, 0.3, (v, h)), random.normal(0, 0.3, (n, h))
    x[:, 0], x[:, 1], w[:, 0], w[:, 1] = 10, 10, 0, -12
    w[v - 300 :, 0] = -3e38
    labels = np.where(np.arange(n) % 3, random.integers(0, v, n), v - 1 - np.arange(n))
    change = dict(input=K.to_type(x, K.BF16), weight=K.to_type(w, K.BF16), labels=labels)
    case = Case(library, memory, problem(library, n, h, v, **{"proposals": whose, "reduction": K.SUM, "wants": K.GRAD_WEIGHT, **values}), change=lambda given: given.update(change))
    case.check(f"a slab without a logit, {NAMES[whose]} {values}", limit=LABELLED, chunk=16)


PLACES = (  # what is said of the case, its options, the problem's
    ("skewed labels", None, {}), ("some ignored", {"ignored": 0.4}, {"label_dtype": K.I32}), ("all ignored", {"ignored": 1.1}, {}),
    ("fewer are promised to count", {"ignored": 0.4}, {"max_counted": 4 / 5}), ("a bias, with which a run has logits", {"bias": True, "ignored": 0.2}, {}))
IN_DWEIGHT = *PLACES, ("fp32 dweight, a gradient for each token", {"weights": True, "upstream": True}, {"reduction": K.NONE, "grad_weight_dtype": K.F32}), (
    "without dinput, at a temperature", None, {"wants": K.LOSS | K.GRAD_WEIGHT, "temperature": 0.7})
IN_DINPUT = *PLACES, ("nearly all ignored", {"ignored": 0.95}, {}), ("a gradient for each token", {"weights": True, "upstream": True}, {"reduction": K.NONE}), (
    "bf16, added to", None, {"grad_weight_dtype": K.BF16}), ("without dweight, at a temperature", {"ignored": 0.3}, {"wants": K.LOSS | K.GRAD_INPUT, "temperature": 0.7})


def lent(library, memory, quick, random, places, wants, **given):
    """Odds in rows of dweight; with MAIN_GRAD by slabs, in rows of dinput of later tokens."""
    for whose in (LENT, LENT_SLABS):
        for cell in ("peaked 0.0001", "overflowing") if EMULATED else [*CELLS, "masked"]:
            if mine():  # 412 classes are borrowed: the second slab has a tile less than the first
                exponential(library, memory, cell, (70, 72, 1564), 16, 2 * EXACT if cell.startswith("peaked") else 1.0, whose=whose, **given)
        few, many = (200, 64, 1003), (300, 264, 5003)
        for shape, chunk in ((few, 16),) if EMULATED else ((few, 16), (many, 48)):
            labels = skewed(shape[0], shape[2], random)
            for name, case, values in places:
                if EMULATED and given and whose == LENT_SLABS and name in ("skewed labels", "some ignored", "all ignored", "bf16, added to"):
                    continue
                if "max_counted" in values:
                    values = {"max_counted": int(shape[0] * values["max_counted"])}
                limit = LABELLED if name.startswith("fp32") else MANY
                labelled(library, memory, name, shape, labels, whose, {"chunk": chunk}, case, limit, **{**given, **values})
        unlikely(library, memory, whose, quick, 16, **given)
        masked_slab(library, memory, whose, wants=wants, **given)


def odds(library, memory, quick):
    """On compute capability 9.0 alone, which has the products that store odds."""
    if memory.stream is None or memory.capability() != (9, 0):
        return
    random = np.random.default_rng(4)
    for cell in ("peaked 0.0001", "logits of +-1e4", "overflowing") if EMULATED else CELLS:
        if mine():
            exponential(library, memory, cell, (129, 72, 768), 129, EXACT if cell.startswith("peaked") else 1.0, whose=BESIDE)
    shape, small, long = (600, 1032, 256) if not EMULATED else (600, 520, 256), (400, 64, 256), (4500, 64, 256)
    labels, others = skewed(shape[0], shape[2], random), skewed(small[0], small[2], random)
    for whose in (OURS, BESIDE):
        labelled(library, memory, "skewed labels", shape, labels, whose)
        labelled(library, memory, "skewed labels", small, others, whose, {"chunk": 256}, {"ignored": 0.3}, label_dtype=K.I32)
        labelled(library, memory, "summed in fp32", small, others, whose, {"chunk": 256}, flags=K.F32_ACCUMULATE)
        labelled(library, memory, "added to", small, others, whose, {"chunk": 256}, grad_weight_dtype=K.F32, grad_weight_beta=1.0)
        labelled(library, memory, "weighed classes, z-loss, a gradient for each token", small, others, whose, None, {"weights": True, "upstream": True}, reduction=K.NONE, z_loss=1e-3)
        labelled(library, memory, "without dinput", small, others, whose, wants=K.LOSS | K.GRAD_WEIGHT)
        labelled(library, memory, "without dweight", small, others, whose, wants=K.LOSS | K.GRAD_INPUT)
        if whose == OURS or not EMULATED:
            labelled(library, memory, "one label, some ignored", long, np.full(long[0], 255), whose, {"chunk": 256}, {"ignored": 0.05}, ONCE)
        if not EMULATED:
            labelled(library, memory, "chunks as long as they get", long, skewed(long[0], long[2], random), whose, {"chunk": 4096}, {"ignored": 0.3})
        unlikely(library, memory, whose, quick)
    lent(library, memory, quick, random, IN_DWEIGHT, K.GRAD_WEIGHT)
    lent(library, memory, quick, random, IN_DINPUT, K.GRAD_WEIGHT | K.GRAD_INPUT, **MAIN_GRAD)
    shape = 700, 264, 9001  # few tiles and many classes: tiles are split, and their two parts added in order
    for ignored in () if quick else (0.0, 0.3, 0.7):
        labels = skewed(shape[0], shape[2], random)
        labelled(library, memory, f"{ignored} ignored", shape, labels, WIDE_SLABS, {"chunk": 512}, {"ignored": ignored}, limit=MANY, **MAIN_GRAD)
