"""One problem with random inputs, what the double reference says of it, and a run of it. An output that is not wanted keeps its bytes,
every buffer has a guard behind it, and what a run may only write is NaN before. The error of a gradient that is added to what was
there is relative to both: they may cancel.
"""
import sys

import numpy as np
import kernels_lce as K

LIMIT = {K.F32: 3e-5, K.F16: 2.5e-3, K.BF16: 1.5e-2}  # relative norm of a gradient
NAMES = {K.F32: "f32", K.F16: "f16", K.BF16: "bf16"}
WANT = {"loss": K.LOSS, "grad_input": K.GRAD_INPUT, "grad_weight": K.GRAD_WEIGHT, "grad_bias": K.GRAD_BIAS, "entropy": K.ENTROPY}
EMULATED = "--emulated" in sys.argv  # every thread is a coroutine there: fewer of the same
count = {"passed": 0, "failed": 0}
SHARE, OF = map(int, sys.argv[sys.argv.index("--share") + 1].split("/")) if "--share" in sys.argv else (0, 1)
dealt = {"cases": 0}


def mine():
    """Whether the next case is this process's: with --share K/N every N-th is, from K on."""
    dealt["cases"] += 1
    return (dealt["cases"] - 1) % OF == SHARE


def report(what, problems):
    count["failed" if problems else "passed"] += 1
    if problems:
        print(f"FAIL  {what}: {'; '.join(problems)}", flush=True)


def refused(what, status, word, function):
    """FUNCTION fails with STATUS and a message that has WORD."""
    try:
        function()
        report(what, ["it was not refused"])
    except K.Error as error:
        report(what, [] if error.status == status and word in error.message else [f"{error}, not {status} with '{word}'"])


class Case:
    """Random inputs for a problem in MEMORY, and what the reference says."""

    def __init__(self, library, memory, problem, *, bias=False, weights=False, upstream=False, above=False, ignored=0.0, invalid=(),
                 scale=1.0, seed=1, change=None, reference=True):
        self.library, self.memory, self.problem = library, memory, problem
        p, random = problem, np.random.default_rng(seed)
        dw_type = p.dtype if p.grad_weight_dtype == -1 else p.grad_weight_dtype
        n, h, v = p.tokens, p.hidden, p.vocab
        self.strides = [s or h for s in (p.input_stride, p.weight_stride, p.grad_input_stride, p.grad_weight_stride)]
        x, w, dx, dw = self.strides
        matrix = lambda rows, stride, size: K.to_type(random.uniform(-size, size, (rows, stride)), p.dtype)
        labels = random.integers(0, v, n)
        labels[random.random(n) < ignored] = p.ignore_index
        for place, label in invalid:
            labels[place] = label
        self.labels = labels
        values = {
            "input": matrix(n, x, scale), "weight": matrix(v, w, 1.0), "bias": matrix(1, v, 1.0) if bias else None,
            "class_weights": random.uniform(0.25, 2, v).astype(np.float32) if weights else None,
            "grad_entropy": random.uniform(-2, 2, max(n, 1)).astype(np.float32) if above else None,
            "grad_output": random.uniform(-2, 2, max(n, 1)).astype(np.float32) if upstream else None,
            "labels": labels.astype(np.int32 if p.label_dtype == K.I32 else np.int64),
        }
        before = K.to_type(random.uniform(-0.1, 0.1, (v, dw)), dw_type), K.to_type(random.uniform(-0.1, 0.1, v), dw_type)
        self.before = before if p.grad_weight_beta else None
        self.outputs = {
            "loss": (K.F32, (n if p.reduction == K.NONE else 1, 1), 1),
            "grad_input": (p.dtype, (n, dx), h), "grad_weight": (dw_type, (v, dw), h), "grad_bias": (dw_type, (v, 1), 1),
            "entropy": (K.F32, (n, 1), 1),
        }
        if change:
            change(values)
        self.values = values
        self.want = self.reference() if reference else None

    def reference(self):
        p, out, host = self.problem, K.Reference(), K.Buffers()
        for name, array in self.values.items():
            setattr(host, name, None if array is None else array.ctypes.data)
        shapes = {"loss": self.outputs["loss"][1], "grad_input": (p.tokens, p.hidden), "grad_weight": (p.vocab, p.hidden),
                  "grad_bias": (p.vocab, 1), "entropy": (p.tokens, 1)}
        want = {name: np.zeros(shape) for name, shape in shapes.items()}
        for name, array in want.items():
            setattr(out, name, array.ctypes.data)
        self.library.reference(p, host, out)
        self.sizes = {name: np.linalg.norm(np.nan_to_num(array)) for name, array in want.items()}
        if self.before:
            dw_type = self.outputs["grad_weight"][0]
            kept = K.from_type(self.before[0], dw_type)[:, : p.hidden], K.from_type(self.before[1], dw_type)[:, None]
            for name, array in zip(("grad_weight", "grad_bias"), kept):
                want[name] += p.grad_weight_beta * array
                self.sizes[name] = np.hypot(self.sizes[name], p.grad_weight_beta * np.linalg.norm(array))
        return want

    def prepare(self, mode=K.AUTO, budget=0, chunk=0, slab=0):
        """A plan, and memory for everything."""
        return Run(self, mode, budget, chunk, slab)

    def run(self, **how):
        """Returns outputs by name as stored, the error flag, the problems seen."""
        run = self.prepare(**how)
        run.start(self.memory.stream)
        self.memory.synchronize()
        info = run.plan.info
        self.info = info.chunk_tokens, info.workspace_size, info.slab_columns
        self.borrows = info.workspace_size - info.gemm_size < info.logits_size or self.lent(info.workspace_size, **how)  # products' scratch is none of the logits'
        return run.end()

    def lent(self, size, mode=K.AUTO, budget=0, chunk=0, slab=0):
        """Whether products of ours, whose parts of tiles may be as large as the logits, take more than SIZE with logits in the workspace."""
        asked = self.problem.proposals
        if asked & (K.BORROW | K.CUBLASLT | K.OURS) != K.BORROW | K.OURS:
            return False
        self.problem.proposals = K.OURS
        try:
            plan = self.library.plan(self.problem, mode, budget, chunk)
            whole = plan.info.workspace_size
            plan.close()
        finally:
            self.problem.proposals = asked
        return size < whole

    def compare(self, got, limit=None):
        problems = []
        for name, (dtype, shape, columns) in self.outputs.items():
            if not self.problem.wants & WANT[name]:
                before = dict(zip(("grad_weight", "grad_bias"), self.before or ())).get(name)
                same = (got[name].view(np.uint8) == 0xFF).all() if before is None else got[name].tobytes() == before.tobytes()
                if not same:
                    problems.append(f"{name} is not wanted, and was written")
                continue
            a, b = K.from_type(got[name], dtype)[:, :columns], self.want[name]
            exact = self.problem.dtype == K.F32 and not self.problem.flags & K.TF32
            fine = exact or self.problem.dtype != K.F32 and self.problem.flags & K.F32_LOGITS
            limit_here = 1e-5 if name in ("loss", "entropy") and fine else limit or LIMIT[self.problem.dtype]
            if (np.isnan(a) != np.isnan(b)).any():
                problems.append(f"{name} has {np.isnan(a).sum()} NaN where {np.isnan(b).sum()} belong")
                continue
            if a.shape[0] and got[name].shape[1] > columns:
                gap = np.ascontiguousarray(got[name][:, columns:]).view(np.uint8)
                if not self.before and not (gap == 0xFF).all():
                    problems.append(f"{name}: written between the rows")
            a, b = np.nan_to_num(a), np.nan_to_num(b)
            error = np.linalg.norm(a - b) / (self.sizes[name] or 1)
            if not error <= limit_here:
                problems.append(f"{name} is off by {error:.2e} (limit {limit_here:.0e})")
        return problems

    def check(self, what, flag=0, limit=None, **how):
        got, seen, problems = self.run(**how)
        problems += self.compare(got, limit)
        if seen != flag:
            problems.append(f"error flag {seen}, not {flag}")
        report(f"{what} {how} chunk {self.info[0]}, slab {self.info[2]}", problems)
        return got


class Run:
    """One plan of a case with buffers of its own, each output and the workspace filled with NaN."""

    def __init__(self, case, mode, budget, chunk, slab=0):
        self.case, memory = case, case.memory
        self.blocks, self.buffers, self.problems = {}, K.Buffers(), []
        for name, array in case.values.items():
            if array is not None:
                self.blocks[name] = K.Block.of(memory, array)
        for name, (dtype, shape, _) in case.outputs.items():
            self.blocks[name] = K.Block(memory, int(np.prod(shape)) * K.ELEMENT[dtype])
        if case.before:
            memory.write(self.blocks["grad_weight"].address, case.before[0])
            memory.write(self.blocks["grad_bias"].address, case.before[1])
        self.blocks["error_flag"] = K.Block.of(memory, np.zeros(1, np.int32))
        self.plan = case.library.plan(case.problem, mode, budget, chunk, slab)
        size = self.plan.info.workspace_size
        if slab and memory.stream is not None and self.plan.info.slab_columns != min(slab, case.problem.vocab):
            self.problems.append(f"slabs of {self.plan.info.slab_columns} classes, not {slab}")
        if budget and size > budget:
            self.problems.append("the plan exceeds its budget")
        self.blocks["workspace"] = K.Block(memory, size)
        for name, block in self.blocks.items():
            setattr(self.buffers, name, block.address)
        self.buffers.workspace_size = size
        memory.synchronize()

    def start(self, stream):
        self.plan.run(self.buffers, stream)

    def outputs(self):
        shapes = self.case.outputs.items()
        return {name: self.blocks[name].read(K.storage(dtype), shape) for name, (dtype, shape, _) in shapes}

    def end(self):
        got, flag = self.outputs(), int(self.blocks["error_flag"].read(np.int32, 1)[0])
        self.problems += [f"wrote beyond {name}" for name, block in self.blocks.items() if not block.untouched()]
        self.plan.close()
        for block in self.blocks.values():
            block.free()
        return got, flag, self.problems


def differ(a, b):
    """The names of the outputs whose bits differ."""
    return [name for name in a if a[name].tobytes() != b[name].tobytes()]


def problem(library, tokens, hidden, vocab, **values):
    values.setdefault("wants", 15)
    return library.problem(tokens=tokens, hidden=hidden, vocab=vocab, **values)
