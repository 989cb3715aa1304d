#!/usr/bin/env python3
"""kernels_check.py LIBRARY cpu|cuda [--quick]: the linear cross-entropy against its own reference in double precision.

Every option, type and reduction; shapes that reach every kernel; every chunk size gives the same answer; two runs the
same bits; nothing is written beyond what belongs to it.  Needs NumPy, not PyTorch: under compute-sanitizer use --quick.
"""
import sys
import numpy as np
import kernels_lce as K

LIMIT = {K.F32: 3e-5, K.F16: 2.5e-3, K.BF16: 1.5e-2}  # relative norm of a gradient
NAMES = {K.F32: "f32", K.F16: "f16", K.BF16: "bf16"}
failures = passed = 0


def report(what, problems):
    global failures, passed
    if problems:
        failures += 1
        print(f"FAIL  {what}: {'; '.join(problems)}", flush=True)
    else:
        passed += 1


class Case:
    """Random inputs for a problem in MEMORY, and what the reference says."""

    def __init__(self, library, memory, problem, *, bias=False, weights=False, upstream=False, ignored=0.0, invalid=(),
                 scale=1.0, seed=1):
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
            "grad_output": random.uniform(-2, 2, max(n, 1)).astype(np.float32) if upstream else None,
            "labels": labels.astype(np.int32 if p.label_dtype == K.I32 else np.int64),
        }
        before = K.to_type(random.uniform(-0.1, 0.1, (v, dw)), dw_type), K.to_type(random.uniform(-0.1, 0.1, v), dw_type)
        self.before = before if p.grad_weight_beta else None
        self.outputs = {
            "loss": (K.F32, (n if p.reduction == K.NONE else 1, 1), 1),
            "grad_input": (p.dtype, (n, dx), h), "grad_weight": (dw_type, (v, dw), h), "grad_bias": (dw_type, (v, 1), 1),
        }
        self.values = values
        self.want = self.reference()

    def reference(self):
        p, out, host = self.problem, K.Reference(), K.Buffers()
        for name, array in self.values.items():
            setattr(host, name, None if array is None else array.ctypes.data)
        shapes = {"loss": self.outputs["loss"][1], "grad_input": (p.tokens, p.hidden), "grad_weight": (p.vocab, p.hidden),
                  "grad_bias": (p.vocab, 1)}
        want = {name: np.zeros(shape) for name, shape in shapes.items()}
        for name, array in want.items():
            setattr(out, name, array.ctypes.data)
        self.library.reference(p, host, out)
        if self.before:
            dw_type = self.outputs["grad_weight"][0]
            want["grad_weight"] += p.grad_weight_beta * K.from_type(self.before[0], dw_type)[:, : p.hidden]
            want["grad_bias"] += p.grad_weight_beta * K.from_type(self.before[1], dw_type)[:, None]
        return want

    def run(self, mode=K.AUTO, budget=0, chunk=0):
        """Returns outputs by name as stored, the error flag, the problems seen."""
        memory, problems, blocks, b = self.memory, [], {}, K.Buffers()
        for name, array in self.values.items():
            if array is not None:
                blocks[name] = K.Block.of(memory, array)
        for name, (dtype, shape, _) in self.outputs.items():
            blocks[name] = K.Block(memory, int(np.prod(shape)) * K.ELEMENT[dtype])
        if self.before:
            memory.write(blocks["grad_weight"].address, self.before[0])
            memory.write(blocks["grad_bias"].address, self.before[1])
        blocks["error_flag"] = K.Block.of(memory, np.zeros(1, np.int32))
        plan = self.library.plan(self.problem, mode, budget, chunk)
        if budget and plan.info.workspace_size > budget:
            problems.append("the plan exceeds its budget")
        blocks["workspace"] = K.Block(memory, plan.info.workspace_size)
        for name, block in blocks.items():
            setattr(b, name, block.address)
        b.workspace_size = plan.info.workspace_size
        plan.run(b, memory.stream)
        memory.synchronize()
        self.info = plan.info.chunk_tokens, plan.info.workspace_size
        plan.close()
        got = {name: blocks[name].read(K.storage(dtype), shape) for name, (dtype, shape, _) in self.outputs.items()}
        flag = int(blocks["error_flag"].read(np.int32, 1)[0])
        problems += [f"wrote beyond {name}" for name, block in blocks.items() if not block.untouched()]
        for block in blocks.values():
            block.free()
        return got, flag, problems

    def compare(self, got, limit=None):
        problems = []
        for name, (dtype, shape, columns) in self.outputs.items():
            a, b = K.from_type(got[name], dtype)[:, :columns], self.want[name]
            limit_here = 1e-5 if name == "loss" and self.problem.dtype == K.F32 else limit or LIMIT[self.problem.dtype]
            if (np.isnan(a) != np.isnan(b)).any():
                problems.append(f"{name} has {np.isnan(a).sum()} NaN where {np.isnan(b).sum()} belong")
                continue
            if a.shape[0] and got[name].shape[1] > columns:
                gap = np.ascontiguousarray(got[name][:, columns:]).view(np.uint8)
                if not self.before and not (gap == 0xFF).all():
                    problems.append(f"{name}: written between the rows")
            a, b = np.nan_to_num(a), np.nan_to_num(b)
            size = np.linalg.norm(b)
            error = np.linalg.norm(a - b) / (size or 1)
            if not error <= limit_here:
                problems.append(f"{name} is off by {error:.2e} (limit {limit_here:.0e})")
        return problems

    def check(self, what, flag=0, limit=None, **how):
        got, seen, problems = self.run(**how)
        problems += self.compare(got, limit)
        if seen != flag:
            problems.append(f"error flag {seen}, not {flag}")
        report(f"{what} {how} chunk {self.info[0]}", problems)
        return got


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
    "int32 labels, ignore in the vocabulary": ({"label_dtype": K.I32, "ignore_index": 5}, {"ignored": 0.3}),
    "everything": (
        {"label_smoothing": 0.2, "z_loss": 0.02, "softcap": 4.0, "grad_weight_beta": -1.0, "ignore_index": 3},
        {"bias": True, "weights": True, "upstream": True, "ignored": 0.3}),
}


def problem(library, tokens, hidden, vocab, **values):
    values.setdefault("wants", 15)
    return library.problem(tokens=tokens, hidden=hidden, vocab=vocab, **values)


def options(library, memory, quick):
    for name, (values, extras) in OPTIONS.items():
        for dtype in (K.BF16,) if quick else (K.F32, K.F16, K.BF16):
            for reduction in (K.MEAN,) if quick else (K.MEAN, K.SUM, K.NONE):
                case = Case(library, memory, problem(library, 100, 48, 331, dtype=dtype, reduction=reduction, **values), **extras)
                what = f"{name}, {NAMES[dtype]}, reduction {reduction}"
                for how in ({"chunk": 40}, {"chunk": 100}, {"mode": K.NAIVE}):
                    case.check(what, **how)


def shapes(library, memory, quick):
    """Row lengths that reach every number of registers and every cluster; odd sizes; strides."""
    rows = [(5, 16, v) for v in (1, 2, 7, 4096, 4097, 9000, 16000, 20000, 24000, 28000, 32768)]
    rows += [(3, 16, v) for v in (32769, 60000, 65537, 128256, 152064, 256000, 270001)]
    rows += [(1, 8, 50), (1, 1, 1), (2, 3, 5), (130, 24, 100), (17, 13, 77), (257, 64, 1000)]
    if quick:
        rows = [(3, 16, 4097), (2, 16, 40000), (2, 16, 128256), (2, 8, 270001), (17, 13, 77)]
    for n, h, v in rows:
        for dtype in (K.BF16,) if quick else (K.F32, K.F16, K.BF16):
            for name in ("plain", "everything"):
                values, extras = OPTIONS[name]
                case = Case(library, memory, problem(library, n, h, v, dtype=dtype, **values), **dict(extras, ignored=0.0))
                case.check(f"{n} x {h} x {v} {NAMES[dtype]} {name}", chunk=n if v % 2 else max(1, n // 2))
    case = Case(library, memory, problem(library, 50, 24, 90, input_stride=32, weight_stride=40, grad_input_stride=48,
                                         grad_weight_stride=56))
    case.check("strides", chunk=16)


def compaction(library, memory, quick):
    for dtype in (K.BF16,) if quick else (K.F32, K.F16, K.BF16):
        case = Case(library, memory, problem(library, 200, 40, 300, dtype=dtype), ignored=0.5)
        counted = int((case.labels != -100).sum())
        for bound in (counted, counted + 7):
            case.problem.max_counted = bound
            case.check(f"compaction, {NAMES[dtype]}, {counted} of 200 count, {bound} promised", chunk=32)
        small = Case(library, memory, problem(library, 200, 40, 300, dtype=dtype, reduction=K.NONE, max_counted=counted - 9),
                     ignored=0.5)
        small.check("more count than promised", flag=2, chunk=32)


def corners(library, memory, quick):
    for reduction in (K.MEAN, K.SUM, K.NONE):
        case = Case(library, memory, problem(library, 40, 16, 60, reduction=reduction), ignored=1.1)
        case.check(f"all ignored, reduction {reduction}", chunk=16)
        case = Case(library, memory, problem(library, 0, 16, 60, reduction=reduction, grad_weight_beta=0.5))
        case.check(f"no token, reduction {reduction}")
        case = Case(library, memory, problem(library, 30, 16, 60, reduction=reduction),
                    invalid=((3, 60), (9, -1), (20, 2**62), (29, -(2**62))))
        case.check(f"labels out of range, reduction {reduction}", flag=1, chunk=8)
    for dtype in (K.F32, K.F16, K.BF16):
        case = Case(library, memory, problem(library, 16, 16, 500, dtype=dtype, reduction=K.NONE), scale=60)
        got = case.check(f"logits hundreds apart, {NAMES[dtype]}", limit=0.1, chunk=16)
        report("large gaps are finite", [n for n, a in got.items() if not np.isfinite(K.from_type(a, case.outputs[n][0])).all()])


def budgets(library, memory, quick):
    case = Case(library, memory, problem(library, 512, 64, 4000))
    for budget in (1 << 20, 2 << 20, 8 << 20, 64 << 20):
        case.check(f"budget {budget}", budget=budget)
    try:
        library.plan(case.problem, K.FAST, 10000)
        report("a budget too small is refused", ["it was not"])
    except K.Error as error:
        report("a budget too small is refused", [] if error.status == 5 and "needs" in error.message else [str(error)])


def repeated(library, memory, quick):
    for name in ("plain", "everything"):
        values, extras = OPTIONS[name]
        case = Case(library, memory, problem(library, 300, 128, 5000, **values), **extras)
        first = case.run(chunk=128)[0]
        for _ in range(2 if quick else 10):
            again = case.run(chunk=128)[0]
            report(f"the same bits again, {name}", [n for n in first if first[n].tobytes() != again[n].tobytes()])


def main():
    path, backend, quick = sys.argv[1], sys.argv[2], "--quick" in sys.argv
    memory = K.Gpu() if backend == "cuda" else K.Host()
    library = K.Library(path, K.CUDA if backend == "cuda" else K.CPU)
    for group in (options, shapes, compaction, corners, budgets, repeated):
        before = passed
        try:
            group(library, memory, quick)
        except (K.Error, RuntimeError) as error:
            report(group.__name__, [str(error)])
        print(f"      {group.__name__}: {passed - before} passed", flush=True)
    library.close()
    memory.close()
    print(f"{passed} passed, {failures} failed")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
