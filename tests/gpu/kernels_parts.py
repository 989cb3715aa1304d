"""A part of kernels_check.py: a vocabulary whose rows several ranks hold, all of them here in turn. Together they must be what the
reference says of the whole vocabulary, with the same bits of the loss on every rank.

With LCE_EXCHANGE a rank's run asks for the exchange of each chunk. As all ranks are one process here, each runs twice: first what
it sends is noted; then it is given all ranks' notes, when it asks to wait for them and not before.
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

    def run(self, partials=None, parts=0, exchange=None, **how):
        """The first run, or with PARTIALS the second one, or with an EXCHANGE the only one; returns its outputs and error flag."""
        case, p, blocks, buffers = self.case, self.case.problem, {}, K.Buffers()
        values = {name: getattr(p, name) for name, _ in K.Problem._fields_ if name != "size"}
        values.update(vocab=self.end - self.begin, vocab_begin=self.begin, vocab_total=p.vocab, parts=parts)
        if not parts:
            values["wants"] = K.PARTIAL
        if exchange:
            values["flags"] |= K.EXCHANGE
            partials = np.full((parts * p.tokens, 5), np.nan, np.float32)
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
        if exchange:
            exchange.begin(self, blocks)
            buffers.exchange = exchange.function
        self.memory.synchronize()
        plan.run(buffers, self.memory.stream)
        self.memory.synchronize()
        if exchange:
            exchange.end(plan)
        got = {name: blocks[name].read(K.storage(dtype), shape) for name, (dtype, shape) in self.outputs.items()}
        flag = int(blocks["error_flag"].read(np.int32, 1)[0])
        problems = [f"wrote beyond {name}" for name, block in blocks.items() if not block.untouched()]
        plan.close()
        for name, block in blocks.items():
            if name != "partial":
                block.free()
        return got, flag, problems


class Exchange:
    """The caller's side of LCE_EXCHANGE: notes what a rank sends; once all ranks' notes are there, gives them."""

    def __init__(self, memory, tokens, ranks):
        self.memory, self.tokens, self.ranks = memory, tokens, ranks
        self.sent, self.gives, self.problems = {}, False, []
        self.function = K.EXCHANGE_FUNCTION(self.called)

    def begin(self, rank, blocks):
        self.rank, self.blocks, self.steps, self.rows = rank, blocks, [], {}

    def called(self, context, step, first, count, stream):
        self.steps.append((step, first, count))
        if step == K.INPUT:
            return 0
        self.memory.synchronize()
        if step == K.START:
            part = self.blocks["partial"].read(np.float32, (self.tokens, 5))[first : first + count]
            if np.isnan(part).any():
                self.problems.append(f"NaN is to be sent for rows {first} to {first + count}")
            if self.gives and self.sent[self.rank, first].tobytes() != part.tobytes():
                self.problems.append("another run sends other bits")
            self.sent[self.rank, first] = part
        elif self.gives:
            all_ranks = np.concatenate([self.sent[rank, first] for rank in self.ranks])
            self.memory.write(self.blocks["partials"].address + len(self.ranks) * first * PARTIAL, all_ranks)
            self.memory.synchronize()  # a copy may return before it is there, and the run's stream does not wait for it
        return 0

    def end(self, plan):
        """The steps are those that the header describes."""
        chunks, size = [s for s in self.steps if s[0] == K.START], plan.info.chunk_tokens
        wanted, inputs = [], [s for s in self.steps if s[0] == K.INPUT]
        for _, first, count in chunks:
            wanted += [(K.START, first, count), (K.FINISH, first, count)]
            wanted += [s for s in inputs if len(inputs) == len(chunks) > 1 and s[1] == first]
        wanted += inputs if len(inputs) == 1 else []
        if self.steps != wanted or [c[1] for c in chunks] != list(range(0, sum(c[2] for c in chunks), size)):
            self.problems.append(f"steps {self.steps}")
        if self.gives and self.rank.case.problem.wants & K.GRAD_INPUT and sum(s[2] for s in inputs) != self.tokens:
            self.problems.append(f"dinput came in {inputs}")


def together(case, cuts, exchanged=False, **how):
    """What all ranks' runs are together, as Case.compare wants it; the error flag; the problems seen.  EXCHANGED: in one run, not two."""
    p, n = case.problem, case.problem.tokens
    edges = [0, *cuts, p.vocab]
    ranks = [Rank(case, begin, end) for begin, end in zip(edges, edges[1:])]
    problems = []
    if exchanged:
        exchange = Exchange(case.memory, n, ranks)
        for rank in ranks:
            rank.run(parts=len(ranks), exchange=exchange, **how)
        exchange.gives = True
        results = [rank.run(parts=len(ranks), exchange=exchange, **how) for rank in ranks]
        return joined(case, ranks, results, exchange.problems)
    for rank in ranks:
        problems += rank.run(**how)[2]
    partials = np.concatenate([rank.partial.read(np.float32, (n, 5)) for rank in ranks])
    if np.isnan(partials).any():
        problems.append("NaN in a partial result")
    return joined(case, ranks, [rank.run(partials, len(ranks), **how) for rank in ranks], problems)


def joined(case, ranks, runs, problems):
    p, results, flags = case.problem, [], set()
    for rank, (got, flag, seen) in zip(ranks, runs):
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
                for how in ({"chunk": 32}, {"chunk": 70, "slab": 64}, {"chunk": 32, "exchanged": True}, {"chunk": 70, "exchanged": True}):
                    got, flag, problems = together(case, cuts, **how)
                    problems += case.compare(got) + ([f"error flag {flag}"] if flag else [])
                    report(f"in {len(cuts) + 1} parts, {name}, {NAMES[dtype]} {how}", problems)
    for exchanged, way in ((False, ""), (True, ", exchanged")):
        parts_of_few(library, memory, exchanged, way)


def parts_of_few(library, memory, exchanged, way):
    """Labels out of range, tokens that do not count, fewer outputs."""
    bad = Case(library, memory, problem(library, 30, 16, 160, reduction=K.NONE, wants=31), invalid=((3, 160), (9, -1)), ignored=0.3)
    got, flag, problems = together(bad, (80,), exchanged, chunk=8)
    report(f"in parts, labels out of range{way}", problems + bad.compare(got) + ([] if flag == 1 else [f"error flag {flag}"]))
    half = Case(library, memory, problem(library, 200, 40, 300, wants=31), ignored=0.5)
    half.problem.max_counted = int((half.labels != -100).sum()) + 3
    got, _, problems = together(half, (120, 250), exchanged, chunk=32)
    report(f"in parts, compacted{way}", problems + half.compare(got))
    mixed = Case(library, memory, problem(library, 130, 64, 400, wants=31, proposals=1 << 14), ignored=0.4)
    got, _, problems = together(mixed, (70,), exchanged, chunk=40)
    report(f"in parts, compacted for products that not every rank has{way}", problems + mixed.compare(got))
    none = Case(library, memory, problem(library, 40, 16, 160, wants=31), ignored=1.1)
    got, _, problems = together(none, (100,), exchanged, chunk=16)
    report(f"in parts, all ignored{way}", problems + none.compare(got))
    loss = Case(library, memory, problem(library, 40, 16, 160, wants=17))
    got, _, problems = together(loss, (100,), exchanged, chunk=16)
    report(f"in parts, the loss alone{way}", problems + loss.compare(got))


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
        ("a temperature below 0", "temperature is -1", {"temperature": -1.0}),
        ("an infinite temperature", "temperature is inf", {"temperature": np.inf}),
        ("an exchange with nobody", "over how many ranks", {"flags": K.EXCHANGE}),
        ("no temperature", "temperature is nan", {"temperature": np.nan}),
    ):
        refused(what, 1, word, lambda: plan(**values))
    refused("too many classes in all", 6, "vocab_total", lambda: plan(vocab_total=2**31, parts=2))
