#!/usr/bin/env python3
"""kernels_check.py LIBRARY cpu|cuda [--quick] [--planted] [--share K/N] [--without|--only GROUP,...]: the linear cross-entropy against
its double reference. Needs NumPy, not PyTorch.

--quick: under compute-sanitizer. --planted begins with a kernel that has a race, for racecheck to find. --share K/N: every N-th
case from K on. --emulated leaves out what tests/emulated is no test of, or is too slow for. --digest prints only the bits of some
results.
"""
import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for norms of some thousand numbers it wakes a thread per core otherwise
import numpy as np
import kernels_hostile
import kernels_odds
import kernels_lce as K
import kernels_parts
import kernels_products
import kernels_regimes
from kernels_case import EMULATED, NAMES, WANT, Case, count, differ, mine, problem, refused, report

OPTIONS = {
    "plain": ({}, {}),
    "ignore": ({}, {"ignored": 0.4}),
    "bias": ({}, {"bias": True}),
    "smoothing": ({"label_smoothing": 0.1}, {}),
    "z-loss": ({"z_loss": 0.01}, {}),
    "softcap": ({"softcap": 3.0}, {}),
    "class weights": ({}, {"weights": True}),
    "upstream": ({}, {"upstream": True}),
    "beta": ({"grad_weight_beta": 0.5}, {"bias": True}),
    "dweight fp32": ({"grad_weight_dtype": K.F32, "grad_weight_beta": 1.0}, {}),
    "accumulate fp32": ({"flags": K.F32_ACCUMULATE}, {"ignored": 0.2}),
    "fp32 logits": ({"flags": K.F32_LOGITS}, {"ignored": 0.2}),
    "fp32 logits, dweight fp32": ({"flags": K.F32_LOGITS, "grad_weight_dtype": K.F32, "grad_weight_beta": 1.0}, {}),
    "int32 labels, ignore in the vocabulary": ({"label_dtype": K.I32, "ignore_index": 5}, {"ignored": 0.3}),
    "temperature": ({"temperature": 0.7}, {"ignored": 0.2}),
    "entropy": ({"wants": 31}, {"ignored": 0.2}),
    "entropy and its gradient": ({"wants": 31, "temperature": 1.5}, {"above": True, "upstream": True, "ignored": 0.2}),
    "entropies, fp32 logits, z-loss": (
        {"wants": 31, "temperature": 0.6, "flags": K.F32_LOGITS, "z_loss": 0.02, "grad_weight_beta": -1.0}, {"above": True, "upstream": True, "ignored": 0.3}),
    "the gradient of the entropy alone": ({"wants": 14, "flags": K.F32_LOGITS}, {"above": True, "bias": True}),
    "everything": (
        {"wants": 31, "temperature": 1.25, "label_smoothing": 0.2, "z_loss": 0.02, "softcap": 4.0, "grad_weight_beta": -1.0, "ignore_index": 3},
        {"bias": True, "weights": True, "upstream": True, "above": True, "ignored": 0.3}),
}
OPTIONS["everything, fp32 logits"] = (dict(OPTIONS["everything"][0], flags=K.F32_LOGITS), OPTIONS["everything"][1])
PLACED = "plain", "accumulate fp32", "fp32 logits", "everything, fp32 logits"  # which decide where things lie in memory


def options(library, memory, quick):
    n, chunk = (34, 14) if EMULATED else (100, 40)  # three chunks, of which one is shorter
    for name, (values, extras) in OPTIONS.items():
        for dtype in (K.BF16,) if quick else (K.F32, K.F16, K.BF16):
            for reduction in (K.MEAN,) if quick else (K.MEAN, K.SUM, K.NONE):
                if not mine():
                    continue
                case = Case(library, memory, problem(library, n, 48, 331, dtype=dtype, reduction=reduction, **values), **extras)
                what = f"{name}, {NAMES[dtype]}, reduction {reduction}"
                ways = [{"chunk": chunk}, {"chunk": n}, {"chunk": chunk, "slab": 64}, {"chunk": n, "slab": 192}]
                if "wants" in values and EMULATED and not name.startswith("everything"):
                    ways = ways[1:3]
                for how in ways:
                    case.check(what, **how)


def tf32(library, memory, quick):
    case = Case(library, memory, problem(library, 200, 64, 1000, dtype=K.F32, flags=K.TF32))
    got = case.check("TF32", limit=3e-3, chunk=200)
    case.problem.flags = 0
    exact = case.check("without TF32", chunk=200)
    same = not differ(got, exact)
    report("TF32 is another product on a GPU alone", ["same bits"] if same == (memory.stream is not None) else [])


def shapes(library, memory, quick):
    """Row lengths that reach every number of registers and every cluster; odd sizes; strides."""
    rows = [(5, 16, v) for v in (1, 2, 7, 4096, 4097, 9000, 16000, 20000, 24000, 28000, 32768)]
    rows += [(3, 16, v) for v in (32769, 60000, 65537, 128256, 152064, 256000, 270001)]
    rows += [(1, 8, 50), (1, 1, 1), (2, 3, 5), (130, 24, 100), (17, 13, 77), (257, 64, 1000)]
    if quick:
        rows = [(3, 16, 4097), (2, 16, 40000), (2, 16, 128256), (2, 8, 270001), (17, 13, 77)]
    for n, h, v in rows:
        for dtype in (K.BF16,) if quick else (K.F32, K.F16, K.BF16):
            for name in ("plain", "everything", "fp32 logits", "everything, fp32 logits"):
                values, extras = OPTIONS[name]
                if dtype == K.F32 and name not in ("plain", "everything") or not mine():
                    continue  # the same in fp32
                case = Case(library, memory, problem(library, n, h, v, dtype=dtype, **values), **dict(extras, ignored=0.0))
                half = n if v % 2 else max(1, n // 2)
                case.check(f"{n} x {h} x {v} {NAMES[dtype]} {name}", chunk=half)
                if v > 64:
                    case.check(f"{n} x {h} x {v} {NAMES[dtype]} {name}", chunk=half, slab=64 if v < 4096 else 4096 + v // 4 // 64 * 64)
    if not mine():
        return
    case = Case(library, memory, problem(library, 50, 24, 90, input_stride=32, weight_stride=40, grad_input_stride=48,
                                         grad_weight_stride=56))
    case.check("strides", chunk=16)
    case.check("strides", chunk=16, slab=64)


def policy(library, memory, quick):
    """Entropies with their gradients, and all options, in rows of every number of registers and every cluster; the same bits again."""
    many = [4096 * each - 5 for each in range(1, 9)] + [40000, 60000, 128256, 152064, 256000, 262144, 270001]
    for vocab in (4091, 12283, 139993) if EMULATED else (4091, 12283, 20475, 28667, 128256, 152064) if quick else many:
        for dtype in (K.BF16,) if quick else (K.F32, K.F16, K.BF16):
            for flags in (0,) if dtype == K.F32 else (0, K.F32_LOGITS):
                if not mine():
                    continue
                values = dict(dtype=dtype, flags=flags, wants=7 | K.ENTROPY, temperature=0.7, reduction=K.NONE)
                for others, extras in (({}, {}), ({"wants": 31, "label_smoothing": 0.1, "softcap": 30.0}, {"bias": True, "weights": True})):
                    case = Case(library, memory, problem(library, 3, 16, vocab, **dict(values, **others)), upstream=True, above=True, **extras)
                    what = f"policy, {vocab} {NAMES[dtype]}, flags {flags}{', all options' if others else ''}"
                    for how in ({"chunk": 2}, {"chunk": 2, "slab": 1024 + vocab // 4 // 64 * 64})[: 1 if EMULATED and vocab > 20000 else 2]:
                        got = case.check(what, **how)
                        report(f"the same bits again, {what}", differ(got, case.run(**how)[0]))


def compaction(library, memory, quick):
    for dtype in (K.BF16,) if quick else (K.F32, K.F16, K.BF16):
        case = Case(library, memory, problem(library, 200, 40, 300, dtype=dtype), ignored=0.5)
        counted = int((case.labels != -100).sum())
        for bound in (counted, counted + 7):
            case.problem.max_counted = bound
            for slab in (0, 128):
                case.check(f"compaction, {NAMES[dtype]}, {counted} of 200 count, {bound} promised", chunk=32, slab=slab)
        small = Case(library, memory, problem(library, 200, 40, 300, dtype=dtype, reduction=K.NONE, max_counted=counted - 9),
                     ignored=0.5)
        small.check("more count than promised", flag=2, chunk=32)
        small.check("more count than promised", flag=2, chunk=32, slab=128)


def lends(case, chunk):
    """Whether a quarter of dweight's rows are left where a chunk's logits lie in the others; None: dweight is added to, so that
    rows of dinput may lend, which `segments` checks."""
    p = case.problem
    type_ = case.outputs["grad_weight"][0]
    row = p.hidden * K.ELEMENT[type_]
    logits = chunk * -(-p.vocab // 64) * 64 * K.ELEMENT[K.F32 if p.flags & K.F32_LOGITS else p.dtype]
    left = max(0, p.vocab * row - logits) // 256 * 256 // row // 64 * 64
    if p.grad_weight_beta:
        return None
    elsewhere = p.flags & K.F32_ACCUMULATE and type_ != K.F32
    return not elsewhere and left >= max(1, p.vocab // 4)


def borrowed(library, memory, quick):
    """Logits in dweight's own rows, whose classes come again at the end; and where they may not lie there."""
    shapes, middle = ((60, 64, 1000), (130, 72, 2003), (33, 136, 5001)), 24
    few = EMULATED or quick  # a sanitizer checks each launch: all ways of the options that differ in where things lie alone
    if few:
        shapes, middle = ((37, 72, 2003),), 12
    for n, h, v in shapes[1:2] if memory.stream is None and not few else shapes:
        for name, (values, extras) in OPTIONS.items():
            for dtype in (K.BF16,) if quick else (K.F32, K.F16, K.BF16):
                if not mine():
                    continue
                # the same size of logits at any H: what bf16 makes of them grows with it
                case = Case(library, memory, problem(library, n, h, v, dtype=dtype, **values), scale=min(1, 72 / h), **extras)
                ways = (8, 0), (middle, 1), (middle, 3), (40 if h < 100 and n > 40 else 33, 2)
                for chunk, slabs in ways if EMULATED or not quick or name in PLACED else ways[1:2]:
                    case.problem.proposals = K.BORROW | K.CUBLASLT | slabs << K.SLAB_SHIFT
                    case.check(f"borrowed, {name}, {NAMES[dtype]}, slabs of {slabs}", chunk=chunk)
                    if memory.stream is not None:
                        where = f"{n} x {h} x {v}, {name}, {NAMES[dtype]}, chunk {chunk}"
                        report(f"logits in dweight, {where}", [] if lends(case, chunk) in (None, case.borrows) else [f"borrows: {case.borrows}"])
    if not mine():
        return
    case = Case(library, memory, problem(library, 200, 40, 1300, dtype=K.BF16), ignored=0.5)
    case.problem.max_counted = int((case.labels != -100).sum()) + 7
    for slabs in (2, 0):  # the workspace's alone; none, but for the last classes'
        case.problem.proposals = K.BORROW | slabs << K.SLAB_SHIFT
        case.check(f"borrowed, compacted, slabs of {slabs}", chunk=16)
        first = case.run(chunk=16)[0]
        report(f"borrowed, the same bits again, slabs of {slabs}", differ(first, case.run(chunk=16)[0]))
    case = Case(library, memory, problem(library, 50, 24, 1300, input_stride=32, weight_stride=40, grad_input_stride=48,
                                         grad_weight_stride=32, proposals=K.BORROW))
    case.check("borrowed, rows of dweight apart", chunk=4)
    report("between rows of dweight lies nothing", ["borrows"] if memory.stream is not None and case.borrows else [])


def segments(library, memory, quick):
    """Logits and sums in the rows of dinput of later tokens, where dweight is added to, or not wanted."""
    few = EMULATED or quick  # of three tokens at a time a case is some thousand launches: under a sanitizer that checks each, two cases
    n, h, v = (45, 136, 331) if few else (300, 72, 2003)
    for name, (values, extras) in OPTIONS.items():
        for dtype in (K.BF16,) if quick else (K.F32, K.F16, K.BF16):
            if not mine():
                continue
            case = Case(library, memory, problem(library, n, h, v, dtype=dtype, **dict(values, grad_weight_beta=1)), **extras)
            for chunk, slab in ((n // 4, 0), (n // 8, 2), (3, 0)) if not few or name in ("plain", "everything, fp32 logits") else ((n // 4, 0),):
                for whose in (K.CUBLASLT,) if dtype == K.F32 or memory.stream is None else (K.CUBLASLT, kernels_products.OURS):
                    case.problem.proposals = K.BORROW | whose | slab << K.SLAB_SHIFT
                    case.check(f"in segments, {name}, {NAMES[dtype]}, slabs of {slab}, whose {whose >> 13}", chunk=chunk)
    if not mine():
        return
    for wants in (K.LOSS | K.GRAD_INPUT, 15):
        case = Case(library, memory, problem(library, n, h, 320, dtype=K.BF16, wants=wants, proposals=K.BORROW | K.CUBLASLT, grad_weight_beta=1))
        first = case.check(f"in segments, wanted {wants}", chunk=n // 8)
        report(f"in segments, wanted {wants}: the same bits again", differ(first, case.run(chunk=n // 8)[0]))
    case = Case(library, memory, problem(library, 50, 24, 1300, grad_input_stride=32, grad_weight_beta=1, proposals=K.BORROW))
    case.check("in segments, rows of dinput apart", chunk=4)


def corners(library, memory, quick):
    for reduction in (K.MEAN, K.SUM, K.NONE):
        case = Case(library, memory, problem(library, 40, 16, 160, reduction=reduction), ignored=1.1)
        none = Case(library, memory, problem(library, 0, 16, 160, reduction=reduction, grad_weight_beta=0.5))
        wrong = Case(library, memory, problem(library, 30, 16, 160, reduction=reduction),
                     invalid=((3, 160), (9, -1), (20, 2**62), (29, -(2**62))))
        for slab in (0, 64):
            case.check(f"all ignored, reduction {reduction}", chunk=16, slab=slab)
            none.check(f"no token, reduction {reduction}", slab=slab)
            wrong.check(f"labels out of range, reduction {reduction}", flag=1, chunk=8, slab=slab)
    for dtype in (K.F32, K.F16, K.BF16):
        case = Case(library, memory, problem(library, 16, 16, 500, dtype=dtype, reduction=K.NONE), scale=60)
        for slab in (0, 128):
            got = case.check(f"logits hundreds apart, {NAMES[dtype]}", limit=0.1, chunk=16, slab=slab)
            report("large gaps are finite", [n for n, a in got.items() if case.problem.wants & WANT[n] and not np.isfinite(K.from_type(a, case.outputs[n][0])).all()])


def half_precision(library, memory, quick):
    """Upstream gradients of loss and entropy of any size beside each other: in fp16 neither overflows, nor vanishes."""
    for reduction in (K.MEAN, K.SUM):
        for ce, entropy in ((300.0, 1.0), (1.0, 300.0), (1e-3, 1.0), (0.0, 1.0), (1.0, 0.0)):
            change = lambda values: values.update(grad_output=np.full(60, ce, np.float32), grad_entropy=np.full(60, entropy / 60, np.float32))
            case = Case(library, memory, problem(library, 60, 32, 200, dtype=K.F16, reduction=reduction, grad_weight_dtype=K.F32, wants=31), change=change, scale=0.5)
            case.check(f"fp16, upstream {ce} and {entropy}, reduction {reduction}", chunk=40)


def budgets(library, memory, quick):
    """Lean's plan, which is the least; a budget that it fits, and one that it does not."""
    case = Case(library, memory, problem(library, 100, 48, 331))
    case.check("lean", mode=K.LEAN)
    lean = case.info[1]
    case.check("a budget of lean's bytes", budget=lean)
    refused("a budget below lean's bytes", 5, f"LCE_LEAN needs {lean}", lambda: library.plan(case.problem, K.FAST, lean - 1))


def portable(library, memory, quick):
    """What GPUs of compute capability 8.x run, without clusters and WGMMA, forced wherever this runs."""
    few = ("plain", "everything, fp32 logits") if EMULATED else ("plain", "fp32 logits", "entropy and its gradient", "everything", "everything, fp32 logits")
    for name in few:
        values, extras = OPTIONS[name]
        for dtype in (K.BF16,) if quick else (K.F32, K.F16, K.BF16):
            for n, h, v in ((100, 48, 331), (3, 16, 20001)) if quick else ((100, 48, 331), (3, 16, 20001), (3, 8, 270001), (600, 64, 1000)):
                p = problem(library, n, h, v, dtype=dtype, **dict(values, flags=values.get("flags", 0) | K.PORTABLE))
                case = Case(library, memory, p, **dict(extras, ignored=0.0 if n < 10 else 0.2))
                for how in ({}, {"chunk": (n + 1) // 2}, {"chunk": n, "slab": 64 if v < 4096 else 8192}):
                    case.check(f"portable {n} x {h} x {v} {NAMES[dtype]} {name}", **how)


def scaled(library, memory, quick):
    """Gradients times an upstream gradient that only the device knows: 1 leaves every bit, and another one rounds once."""
    for dtype in (K.F32, K.F16, K.BF16):
        for count in (1, 7, 8, 1003) if quick else (1, 7, 8, 1003, (1 << 22) + 5):
            before = K.to_type(np.random.default_rng(3).uniform(-2, 2, count), dtype)
            for factor in (1.0, 0.3, 0.0, float("inf"), float("nan")):
                matrix, number = K.Block.of(memory, before), K.Block.of(memory, np.array([factor], np.float32))
                memory.synchronize()
                library.scale(matrix.address, count, dtype, number.address, memory.stream)
                memory.synchronize()
                got = matrix.read(K.storage(dtype), count)
                with np.errstate(invalid="ignore"):
                    want = before if factor == 1 else K.to_type(K.from_type(before, dtype).astype(np.float32) * np.float32(factor), dtype)
                same = (got == want) | (np.isnan(K.from_type(got, dtype)) & np.isnan(K.from_type(want, dtype)))
                problems = [] if same.all() else [f"{(~same).sum()} are wrong"]
                report(f"{count} of {NAMES[dtype]} times {factor}", problems + ([] if matrix.untouched() else ["wrote beyond"]))
                matrix.free()
                number.free()


def repeated(library, memory, quick):
    for name in ("plain", "everything", "fp32 logits"):
        values, extras = OPTIONS[name]
        case = Case(library, memory, problem(library, 300, 128, 5000, **values), **extras)
        for slab in (0, 1024):
            first = case.run(chunk=128, slab=slab)[0]
            for _ in range(2 if quick else 10):
                again = case.run(chunk=128, slab=slab)[0]
                report(f"the same bits again, {name}, slab {slab}", differ(first, again))


DEALT = options, shapes, policy, borrowed, segments, kernels_products.products, kernels_products.lent, kernels_odds.odds  # case by case; the others whole


def main():
    path, backend, quick = sys.argv[1], sys.argv[2], "--quick" in sys.argv
    memory = K.Gpu() if backend == "cuda" else K.Host()
    library = K.Library(path, K.CUDA if backend == "cuda" else K.CPU)
    if "--digest" in sys.argv:
        return print(kernels_hostile.digest(library, memory))
    groups = (options, tf32, shapes, policy, compaction, borrowed, segments, corners, half_precision, budgets, portable, scaled, repeated, kernels_regimes.regimes, kernels_regimes.exponentials, kernels_odds.odds, kernels_parts.parts, kernels_parts.refusals, kernels_products.products, kernels_products.lent) + kernels_hostile.GROUPS
    if "--emulated" in sys.argv:
        left_out = (tf32, repeated, kernels_products.products, kernels_products.lent, kernels_hostile.streams, kernels_hostile.graphs)
        groups = [group for group in groups if group not in left_out]
    for option in {"--without", "--only"} & set(sys.argv):
        names = sys.argv[sys.argv.index(option) + 1].split(",")
        unknown = set(names) - {group.__name__ for group in groups}
        if unknown:
            raise SystemExit(f"kernels_check.py: no group {', '.join(sorted(unknown))}")
        groups = [group for group in groups if (group.__name__ in names) == (option == "--only")]
    if "--planted" in sys.argv:
        memory.planted_race()
    for group in groups:
        if group not in DEALT and not mine():
            continue
        before, start, began = count["passed"], time.process_time(), time.time()
        try:
            group(library, memory, quick)
        except (K.Error, RuntimeError) as error:
            report(group.__name__, [str(error)])
        print(f"      {group.__name__}: {count['passed'] - before} passed ({time.time() - began:.1f} s, {time.process_time() - start:.1f} of the host)", flush=True)
    library.close()
    memory.close()
    print(f"{count['passed']} passed, {count['failed']} failed")
    return count["failed"] != 0


if __name__ == "__main__":
    sys.exit(main())
