"""A part of kernels_check.py: options in combination, what is not wanted, bad labels and buffers, NaN, and one library shared by
contexts, streams, graphs and processes.
"""
import hashlib
import subprocess
import sys
import threading

import numpy as np
import kernels_lce as K
from kernels_case import NAMES, Case, Run, differ, problem, refused, report

I64_MIN, I64_MAX = -(2**63), 2**63 - 1
WAYS = {"mode": K.FAST}, {"mode": K.LEAN}, {"chunk": 11, "slab": 128}  # a plan's kinds


def any_problem(library, random):
    """A problem of random options, and what its Case is told."""
    pick = lambda *choices: choices[random.integers(len(choices))]
    n, h, v = int(random.integers(1, 70)), int(random.integers(1, 60)), int(random.integers(2, 400))
    gap = lambda: pick(0, 0, h + int(random.integers(0, 9)))
    dtype = pick(K.F32, K.F16, K.BF16)
    values = dict(
        dtype=dtype, label_dtype=pick(K.I64, K.I32), grad_weight_dtype=pick(-1, K.F32), reduction=pick(K.MEAN, K.SUM, K.NONE),
        flags=pick(0, K.F32_LOGITS) | pick(0, K.F32_ACCUMULATE), wants=pick(15, 31, int(random.integers(1, 32))), temperature=pick(0.0, 0.5, 2.0),
        ignore_index=pick(-100, int(random.integers(v))), label_smoothing=pick(0.0, 0.1, 1.0), z_loss=pick(0.0, 0.02),
        softcap=pick(0.0, 3.0), grad_weight_beta=pick(0.0, 1.0, -0.5), input_stride=gap(), weight_stride=gap(),
        grad_input_stride=gap(), grad_weight_stride=gap(), max_counted=pick(0, 0, n))
    extras = dict(bias=pick(False, True), weights=pick(False, True), upstream=pick(False, True), above=pick(False, True), ignored=pick(0.0, 0.4))
    chunk, slab = int(random.integers(1, n + 1)), 64 * int(random.integers(1, 5))
    how = pick({"mode": K.LEAN}, {"chunk": chunk}, {"chunk": chunk, "slab": slab}, {"mode": K.LEAN, "slab": slab}, {})
    return problem(library, n, h, v, **values), extras, how


def combinations(library, memory, quick):
    for seed in range(20 if quick else 400):
        p, extras, how = any_problem(library, np.random.default_rng(seed))
        case = Case(library, memory, p, seed=seed, **extras)
        counted = int((case.labels != p.ignore_index).sum())
        if p.max_counted and 0 < counted < p.tokens:
            p.max_counted = counted
        case.check(f"combination {seed}: {NAMES[p.dtype]} {p.tokens} x {p.hidden} x {p.vocab} flags {p.flags} {extras}", **how)


def wanted(library, memory, quick):
    """Each output alone is what it is with all the others, bit for bit."""
    for flags, slab in ((0, 0), (K.F32_LOGITS, 0), (0, 64), (K.F32_LOGITS, 64)):
        case = Case(library, memory, problem(library, 60, 24, 200, flags=flags))
        first = case.check("all outputs", chunk=32, slab=slab)
        for wants in (1, 2, 4, 8, 3, 6, 14):
            case.problem.wants = wants
            got = case.check(f"wants {wants}, flags {flags}", chunk=32, slab=slab)
            names = [name for bit, name in enumerate(first) if wants >> bit & 1]
            report(f"wants {wants}: the same bits", [n for n in names if first[n].tobytes() != got[n].tobytes()])


def labels(library, memory, quick):
    worst = {K.I64: (500, -1, I64_MIN, I64_MAX, 2**32 + 3, -(2**32)), K.I32: (500, -1, -(2**31), 2**31 - 1)}
    for kind, bad in worst.items():
        for flags in (0, K.F32_LOGITS):
            for label in bad:
                for how in WAYS:
                    p = problem(library, 20, 16, 500, reduction=K.NONE, label_dtype=kind, flags=flags)
                    Case(library, memory, p, invalid=((7, label),)).check(f"label {label}, flags {flags}", flag=1, **how)
    for dtype in (K.F32, K.F16, K.BF16):
        for reduction in (K.MEAN, K.SUM, K.NONE):
            for n in (0, 1, 33):
                p = problem(library, n, 16, 60, dtype=dtype, reduction=reduction)
                Case(library, memory, p, ignored=1.1).check(f"{n} tokens, all ignored, {NAMES[dtype]}, reduction {reduction}")
    zero = lambda values: values.update(class_weights=np.zeros(60, np.float32))
    half = lambda values: values["class_weights"].__setitem__(slice(0, 60, 2), 0)
    for reduction in (K.MEAN, K.SUM, K.NONE):
        for name, change in (("all class weights are 0", zero), ("half the class weights are 0", half)):
            p = problem(library, 40, 16, 60, reduction=reduction)
            Case(library, memory, p, weights=True, change=change).check(f"{name}, reduction {reduction}")


def nonfinite(library, memory, quick):
    """NaN and infinities in a row of input stay in its row of dinput and its loss."""
    for flags in (0, K.F32_LOGITS):
        for bad in (np.nan, np.inf, -np.inf):
            def change(values):
                x = K.from_type(values["input"], K.BF16).astype(np.float32)
                x[5, 3] = bad
                values["input"] = K.to_type(x, K.BF16)
            p = problem(library, 24, 16, 5000, reduction=K.NONE, flags=flags, wants=K.LOSS | K.GRAD_INPUT)
            for how in WAYS:
                got = Case(library, memory, p, change=change).check(f"{bad} in row 5, flags {flags}", **how)
                rows = np.isnan(K.from_type(got["grad_input"], K.BF16)).any(1).nonzero()[0].tolist()
                report(f"{bad} in row 5 of the input", [] if rows == [5] else [f"NaN in rows {rows} of dinput"])


def buffers(library, memory, quick):
    """Every mistake in the buffers is refused with its code before anything is put on the stream."""
    run = Run(Case(library, memory, problem(library, 10, 16, 60), bias=True), K.AUTO, 0, 0)
    odd = ("input", "weight", "bias", "labels", "loss", "grad_input", "grad_weight", "grad_bias", "error_flag", "workspace")
    for name in odd:
        right = getattr(run.buffers, name)
        setattr(run.buffers, name, right + 2)
        refused(f"{name} at an odd address", 3, name, lambda: run.start(memory.stream))
        setattr(run.buffers, name, None)
        if name not in ("bias", "error_flag"):
            refused(f"no {name}", 1, name, lambda: run.start(memory.stream))
        setattr(run.buffers, name, right)
    run.buffers.workspace_size -= 1
    refused("a workspace one byte too small", 4, "workspace_size", lambda: run.start(memory.stream))
    memory.synchronize()
    report("nothing was written", [n for n, a in run.outputs().items() if not (a.view(np.uint8) == 0xFF).all()])
    run.buffers.workspace_size += 1
    run.start(memory.stream)
    memory.synchronize()
    report("then it runs", run.case.compare(run.outputs()))
    run.end()


def contexts(library, memory, quick):
    """The context of lce_open has to be current; one that is gone is an error, not a crash."""
    if memory.stream is None:
        return  # no such thing on the CPU
    run = Run(Case(library, memory, problem(library, 10, 16, 60)), K.AUTO, 0, 0)
    other = memory.new_context()
    refused("another context is current", 9, "context", lambda: run.start(memory.stream))
    scaled = lambda: library.scale(run.blocks["workspace"].address, 1, K.F32, run.blocks["loss"].address, memory.stream)
    refused("another context is current, and a gradient to be scaled", 9, "lce_scale: another CUDA context", scaled)
    there = K.Library(library.path, K.CUDA)
    plan = there.plan(run.case.problem)
    memory.call("cuCtxDestroy_v2", other)
    memory.call("cuCtxSetCurrent", None)
    refused("no context is current", 9, "context", lambda: run.start(memory.stream))
    refused("opened without a context", 9, "context", lambda: K.Library(library.path, K.CUDA))
    memory.call("cuCtxSetCurrent", memory.context)
    refused("the plan's context is gone", 9, "context", lambda: plan.run(run.buffers, memory.stream))
    plan.close()
    there.close()
    run.start(memory.stream)
    memory.synchronize()
    report("after that", run.case.compare(run.end()[0]))


def streams(library, memory, quick):
    """Two streams, one plan's twin each, two workspaces, both under way at once."""
    if memory.stream is None:
        return  # no such thing on the CPU
    case = Case(library, memory, problem(library, 700, 64, 9000), ignored=0.1)
    alone = case.check("alone", chunk=100)
    runs, other = [case.prepare(chunk=100), case.prepare(chunk=100)], memory.new_stream()
    for _ in range(2 if quick else 8):
        for run, stream in zip(runs, (memory.stream, other)):
            run.start(stream)
    memory.synchronize()
    for run in runs:
        got, _, problems = run.end()
        report("two streams at once", problems + differ(alone, got))
    runs, statuses = [case.prepare(chunk=100), case.prepare(chunk=100)], []

    def work(run, stream):
        memory.call("cuCtxSetCurrent", memory.context)
        for _ in range(8):
            run.start(stream)
        statuses.append("done")

    threads = [threading.Thread(target=work, args=pair) for pair in zip(runs, (memory.stream, other))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    memory.synchronize()
    for run in runs:
        got, _, problems = run.end()
        report("two threads at once", problems + differ(alone, got) + ([] if len(statuses) == 2 else ["a thread failed"]))
    memory.call("cuStreamDestroy_v2", other)


def graphs(library, memory, quick):
    """A captured run, replayed, gives the bits that the run gives; new inputs are seen."""
    if memory.stream is None:
        return  # no such thing on the CPU
    kinds = {}, {"flags": K.F32_LOGITS}, {"dtype": K.F16}, {"max_counted": 90}
    for values, slab in [(values, slab) for values in kinds for slab in (0, 192)]:
        case = Case(library, memory, problem(library, 150, 48, 700, **values), ignored=0.5)
        run = case.prepare(chunk=64, slab=slab)
        graph = memory.capture(lambda: run.start(memory.stream))  # before it ever ran
        alone = case.check(f"alone, {values}", chunk=64, slab=slab)
        for _ in range(3):
            for name in case.outputs:
                memory.fill(run.blocks[name].address, run.blocks[name].size)
            memory.call("cuGraphLaunch", graph, memory.stream)
            memory.synchronize()
            report(f"replayed, {values}", differ(alone, run.outputs()))
        memory.write(run.blocks["input"].address, case.values["input"][::-1].copy())
        memory.synchronize()
        memory.call("cuGraphLaunch", graph, memory.stream)
        memory.synchronize()
        report(f"other inputs, {values}", [] if "grad_weight" in differ(alone, run.outputs()) else ["the same as before"])
        memory.call("cuGraphExecDestroy", graph)
        run.end()


def digest(library, memory):
    text = hashlib.sha256()
    for seed in range(12):
        p, extras, how = any_problem(library, np.random.default_rng(seed))
        p.max_counted = 0
        for array in Case(library, memory, p, seed=seed, reference=False, **extras).run(**how)[0].values():
            text.update(array.tobytes())
    case = Case(library, memory, problem(library, 700, 256, 32000), reference=False)
    for slab in (0, 4096):
        for array in case.run(chunk=256, slab=slab)[0].values():
            text.update(array.tobytes())
    return text.hexdigest()


def processes(library, memory, quick):
    """Other processes get the same bits."""
    if quick:
        return
    here = digest(library, memory)
    for _ in range(2):
        command = [sys.executable, sys.argv[0], sys.argv[1], sys.argv[2], "--digest"]
        there = subprocess.run(command, capture_output=True, text=True, timeout=60)
        report("another process", [] if there.stdout.strip() == here else [f"{there.stdout} {there.stderr}, here {here}"])


def last_rows(case, got, rows):
    """How far loss and dinput of the last ROWS tokens are from NumPy's, in double."""
    x, w = (K.from_type(case.values[name], K.BF16) for name in ("input", "weight"))
    z = x[-rows:] @ w.T
    z -= z.max(1, keepdims=True)
    lse = np.log(np.exp(z).sum(1))
    own = np.arange(rows), case.labels[-rows:]
    loss = lse - z[own]
    g = np.exp(z - lse[:, None])
    g[own] -= 1
    distance = lambda a, b: np.linalg.norm(a - b) / np.linalg.norm(b)
    return distance(got["loss"].ravel()[-rows:], loss), distance(K.from_type(got["grad_input"], K.BF16)[-rows:], g @ w)


def beyond(library, memory, quick):
    """More than 2^31 logits in one buffer: the last rows are right, and everything agrees with small chunks."""
    if quick or memory.stream is None:
        return
    n, v = 24000, 128256
    p = problem(library, n, 64, v, reduction=K.NONE, grad_weight_dtype=K.F32, wants=7)
    case = Case(library, memory, p, reference=False)
    assert n * v > 2**31
    small = case.run(chunk=1000)[0]
    for flags, how in ((0, {"chunk": n}), (K.F32_LOGITS, {"chunk": n})):
        p.flags = flags
        got, flag, problems = case.run(**how)
        loss, dinput = last_rows(case, got, 8)
        problems += [f"the last losses are off by {loss:.1e}"] if not loss < 2e-3 else []
        problems += [f"the last rows of dinput are off by {dinput:.1e}"] if not dinput < 1e-2 else []
        for name in ("loss", "grad_input", "grad_weight"):
            a, b = (K.from_type(r[name], case.outputs[name][0]) for r in (got, small))
            error = np.linalg.norm(a - b) / np.linalg.norm(b)
            problems += [f"{name} is {error:.1e} from that of chunks of 1000"] if not error < 8e-3 else []
        report(f"{n} x {v} logits, flags {flags}, {how}", problems + ([f"flag {flag}"] if flag else []))


GROUPS = (combinations, wanted, labels, nonfinite, buffers, contexts, streams, graphs, processes, beyond)
