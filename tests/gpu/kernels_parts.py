"""What kernels_check.py does besides: a vocabulary whose rows several ranks hold, all of them here in turn.

Each rank's first run gives its partial result; they are put side by side, as an all-gather would; each rank's second run
makes loss, entropies, its own rows' gradients and its share of dinput.  Together that is what the reference says of the
whole vocabulary, and the loss has the same bits on every rank.
"""
import numpy as np
import kernels_lce as K
from kernels_case import EMULATED, NAMES, Case, problem, refused, report

EVERYTHING = ({"wants": 31, "label_smoothing": 0.2, "z_loss": 0.02, "softcap": 4.0, "temperature": 1.25, "ignore_index": 3},
              {"bias": True, "weights": True, "upstream": True, "above": True, "ignored": 0.3})
OPTIONS = {
    "plain": ({}, {"ignored": 0.2}),
    "fp32 logits": ({"flags": K.F32_LOGITS}, {"bias": True}),
    "none": ({"reduction": K.NONE, "wants": 31}, {"upstream": True, "above": True}),
    "int32 labels": ({"label_dtype": K.I32, "reduction": K.SUM}, {}),
    "everything": EVERYTHING,
    "everything, fp32 logits": (dict(EVERYTHING[0], flags=K.F32_LOGITS), EVERYTHING[1]),
}
PARTIAL = 20  # bytes of a struct lce_partial


class Rank:
    """The classes from BEGIN to END of a case."""

    def __init__(self, case, begin, end):
        self.case, self.begin, self.end, self.memory = case, begin, end, case.memory
        part = slice(begin, end)
        self.values = dict(case.values, weight=case.values["weight"][part])
        if self.values["bias"] is not None:
            self.values["bias"] = np.ascontiguousarray(self.values["bias"].ravel()[part])
        n, v = case.problem.tokens, end - begin
        self.outputs = {name: (dtype, (v, *shape[1:]) if name in ("grad_weight", "grad_bias") else shape)
                        for name, (dtype, shape, _) in case.outputs.items()}
        self.partial = K.Block(self.memory, n * PARTIAL)

    def run(self, partials=None, parts=0, **how):
        """The first run, or with PARTIALS the second one; returns its outputs and error flag."""
        case, p, blocks, buffers = self.case, self.case.problem, {}, K.Buffers()
        values = {name: getattr(p, name) for name, _ in K.Problem._fields_ if name != "size"}
        values.update(vocab=self.end - self.begin, vocab_begin=self.begin, vocab_total=p.vocab, parts=parts)
        if not parts:
            values["wants"] = K.PARTIAL
        plan = case.library.plan(case.library.problem(**values), **how)
        for name, array in self.values.items():
            if array is not None:
                blocks[name] = K.Block.of(self.memory, array)
        for name, (dtype, shape) in self.outputs.items():
            blocks[name] = K.Block(self.memory, int(np.prod(shape)) * K.ELEMENT[dtype])
        blocks["error_flag"] = K.Block.of(self.memory, np.zeros(1, np.int32))
        blocks["workspace"] = K.Block(self.memory, plan.info.workspace_size)
        blocks["partial"] = self.partial
        if parts:
            blocks["partials"] = K.Block.of(self.memory, partials)
        for name, block in blocks.items():
            setattr(buffers, name, block.address)
        buffers.workspace_size = plan.info.workspace_size
        self.memory.synchronize()
        plan.run(buffers, self.memory.stream)
        self.memory.synchronize()
        got = {name: blocks[name].read(K.storage(dtype), shape) for name, (dtype, shape) in self.outputs.items()}
        flag = int(blocks["error_flag"].read(np.int32, 1)[0])
        problems = [f"wrote beyond {name}" for name, block in blocks.items() if not block.untouched()]
        plan.close()
        for name, block in blocks.items():
            if name != "partial":
                block.free()
        return got, flag, problems


def together(case, cuts, **how):
    """What all ranks' runs are together, as Case.compare wants it; the error flag; the problems seen."""
    p, n = case.problem, case.problem.tokens
    edges = [0, *cuts, p.vocab]
    ranks = [Rank(case, begin, end) for begin, end in zip(edges, edges[1:])]
    problems, flags = [], set()
    for rank in ranks:
        _, flag, seen = rank.run(**how)
        problems += seen
        flags.add(flag)
    partials = np.concatenate([rank.partial.read(np.float32, (n, 5)) for rank in ranks])
    if np.isnan(partials).any():
        problems.append("NaN in a partial result")
    results = []
    for rank in ranks:
        got, flag, seen = rank.run(partials, len(ranks), **how)
        results.append(got)
        problems += seen
        flags.add(flag)
        rank.partial.free()
    got = dict(results[0])
    for name in ("loss", "entropy"):
        if any(one[name].tobytes() != got[name].tobytes() for one in results):
            problems.append(f"{name} differs between ranks")
    for name in ("grad_weight", "grad_bias"):
        got[name] = np.concatenate([one[name] for one in results])
    if p.wants & K.GRAD_INPUT:
        got["grad_input"] = K.to_type(sum(K.from_type(one["grad_input"], p.dtype) for one in results), p.dtype)
    if len(flags) > 1:
        problems.append(f"error flags {flags}")
    return got, flags.pop(), problems


def parts(library, memory, quick):
    for name, (values, extras) in OPTIONS.items():
        if EMULATED and name not in ("plain", "everything"):
            continue
        for dtype in (K.BF16,) if quick else (K.F32, K.F16, K.BF16):
            case = Case(library, memory, problem(library, 70, 48, 331, dtype=dtype, **values), **extras)
            for cuts in ((64, 65),) if EMULATED else ((), (166,), (64, 65)):
                for how in ({"chunk": 32}, {"chunk": 70, "slab": 64}):
                    got, flag, problems = together(case, cuts, **how)
                    problems += case.compare(got) + ([f"error flag {flag}"] if flag else [])
                    report(f"in {len(cuts) + 1} parts, {name}, {NAMES[dtype]} {how}", problems)
    bad = Case(library, memory, problem(library, 30, 16, 160, reduction=K.NONE, wants=31), invalid=((3, 160), (9, -1)), ignored=0.3)
    got, flag, problems = together(bad, (80,), chunk=8)
    report("in parts, labels out of range", problems + bad.compare(got) + ([] if flag == 1 else [f"error flag {flag}"]))
    half = Case(library, memory, problem(library, 200, 40, 300, wants=31), ignored=0.5)
    half.problem.max_counted = int((half.labels != -100).sum()) + 3
    got, _, problems = together(half, (120, 250), chunk=32)
    report("in parts, compacted", problems + half.compare(got))
    none = Case(library, memory, problem(library, 40, 16, 160, wants=31), ignored=1.1)
    got, _, problems = together(none, (100,), chunk=16)
    report("in parts, all ignored", problems + none.compare(got))
    loss = Case(library, memory, problem(library, 40, 16, 160, wants=17))
    got, _, problems = together(loss, (100,), chunk=16)
    report("in parts, the loss alone", problems + loss.compare(got))


def refusals(library, memory, quick):
    """What contradicts itself is refused before it gets to a back end."""
    plan = lambda mode=K.AUTO, **values: library.plan(problem(library, 8, 16, 100, **values), mode)
    for what, word, values in (
        ("a partial result beside others", "alone", {"wants": K.PARTIAL | K.LOSS}),
        ("partial results of the first run", "second run", {"wants": K.PARTIAL, "parts": 2}),
        ("fewer parts than none", "parts is -1", {"parts": -1}),
        ("classes beyond the last", "within vocab_total", {"vocab_begin": 1, "vocab_total": 100, "parts": 2}),
        ("classes before the first", "vocab_begin -1", {"vocab_begin": -1, "vocab_total": 100, "parts": 2}),
        ("a first class and no number of classes", "within vocab_total", {"vocab_begin": 1, "parts": 2}),
        ("a part without a second run", "how many parts", {"vocab_total": 200}),
        ("a naive entropy", "LCE_NAIVE", {"wants": 31, "mode": K.NAIVE}),
        ("a naive part", "LCE_NAIVE", {"parts": 1, "mode": K.NAIVE}),
        ("a temperature below 0", "temperature is -1", {"temperature": -1.0}),
        ("an infinite temperature", "temperature is inf", {"temperature": np.inf}),
        ("no temperature", "temperature is nan", {"temperature": np.nan}),
    ):
        refused(what, 1, word, lambda: plan(**values))
    refused("too many classes in all", 6, "vocab_total", lambda: plan(vocab_total=2**31, parts=2))
