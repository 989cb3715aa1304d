"""phases_rule.py PROGRAM.history.gz [RUN.db] - holds the phases of a recording against PyTorch's own memory history, block by block.

From a Python stack to a phase, outermost frame first (phase_of):

    1. A stack that does not begin in the program's main thread is backward.
    2. torch/autograd/__init__.py's backward or grad, or graph.py's _engine_run_backward: backward, whatever follows.
    3. The `wrapper` of torch/optim/optimizer.py is optimizer, until the first frame outside of torch: the closure.
    4. A function called `generate` that belongs to a model: evaluation, whatever follows.
    5. nn.Module's _call_impl: evaluation below one of EVALUATION, else forward.
    6. In forward a frame on a line that calls the output layer (HEAD): logits.
    7. Anything else, and what is behind torch/_inductor: none.

Then in the order of events (rule):

    8. After logits, what is `none`, or forward of the same outermost call, is logits until another phase begins or a forward comes from
       another line. A line of FROZEN (a teacher, a reference) has forward and logits of its own.

A dry run's events have the hooks' phases, and there is no database.
"""

import collections
import gzip
import json
import linecache
import re
import sqlite3
import sys

HEAD = re.compile(r"(lm_head|head)\(")
FROZEN = re.compile(r"(reference|teacher)\(")
EVALUATION = {"estimate_loss", "evaluation_loop", "prediction_step", "validation_step", "evaluate"}
TORCH = re.compile(r"-packages/torch/")
OURS = re.compile(r"/vramscope/\w+\.py$|phases_history\.py$")


def source(frame):
    return linecache.getline(frame[0], frame[2]).strip()


def is_call(frame):
    return frame[0].endswith("torch/nn/modules/module.py") and frame[1] == "_call_impl"


def is_engine(frame):
    if frame[0].endswith("torch/autograd/__init__.py"):
        return frame[1] in ("backward", "grad")
    return frame[0].endswith("torch/autograd/graph.py") and frame[1] == "_engine_run_backward"


def is_optimizer(frame):
    return frame[0].endswith("torch/optim/optimizer.py") and frame[1] == "wrapper"


def phase_of(stack):
    """(phase, line of the outermost call or None) of a stack, innermost frame first."""
    frames = [f for f in reversed(stack) if not OURS.search(f[0])]
    if not frames or not any(f[1] == "<module>" for f in frames[:1]):
        return "backward", None
    phase, call, evaluating, before = "none", None, False, None
    for frame in frames:
        if is_engine(frame):
            return "backward", call
        if "/torch/_inductor/" in frame[0] or "/torchinductor_" in frame[0]:
            break
        if phase == "optimizer" and not TORCH.search(frame[0]):
            phase = "none"
        evaluating = evaluating or frame[1] in EVALUATION
        if frame[1] == "generate" and phase == "none":
            return "evaluation", None
        if phase == "none" and is_optimizer(frame):
            phase = "optimizer"
        elif phase == "none" and is_call(frame):
            phase, call = ("evaluation" if evaluating else "forward"), tuple(before or ())
            if phase == "forward" and HEAD.search(source(call)):
                phase = "logits"
        elif phase == "forward" and HEAD.search(source(frame)):
            phase = "logits"
        if not TORCH.search(frame[0]):
            before = frame
    return phase, call


def rule(events, stacks):
    """The phase of each event."""
    known = [phase_of(s) for s in stacks]
    is_open, caller, frozen_open = False, None, None
    for event in events:
        phase, call = known[event[3]]
        frozen = call is not None and FROZEN.search(source(call))
        if phase in ("backward", "optimizer", "evaluation"):
            is_open, frozen_open = False, None
        elif frozen:
            if phase == "logits":
                frozen_open = call
            elif phase == "forward" and frozen_open == call:
                phase = "logits"
        elif phase == "logits":
            is_open, caller = True, call
        elif phase == "forward":
            frozen_open = None
            if is_open and call == caller:
                phase = "logits"
            else:
                is_open = False
        elif phase == "none":
            frozen_open = None
            if is_open:
                phase = "logits"
        yield phase


def recorded_events(path, device):
    db = sqlite3.connect(path)
    rows = db.execute(
        "SELECT op, address, size_bytes, phase FROM event WHERE op IN ('block_alloc', 'block_free') AND device = ? ORDER BY seq", (device,)
    )
    return [("alloc" if op == "block_alloc" else "free", address, size, phase) for op, address, size, phase in rows]


def aligned(events, recorded):
    """The phases that were recorded, one for each event; exits where the two differ in more than phases."""
    if len(recorded) < len(events):
        sys.exit(f"FAIL only {len(recorded)} blocks recorded, PyTorch's history has {len(events)}")
    for i, (event, ours) in enumerate(zip(events, recorded)):
        same = event[0] == ours[0] and event[1] == ours[1] and (event[0] == "free" or event[2] <= ours[2])
        if not same:
            sys.exit(f"FAIL event {i} is {ours[:3]} in the recording and {event[:3]} in PyTorch's history")
    return [ours[3] for ours in recorded]


def compare(history, phases):
    total, agreeing, wrong = 0, 0, collections.OrderedDict()
    by_phase = collections.Counter()
    for event, said, ours in zip(history["events"], rule(history["events"], history["stacks"]), phases):
        if event[0] != "alloc":
            continue
        size = event[2]
        total += size
        by_phase[ours] += size
        if said == ours:
            agreeing += size
        else:
            seen = wrong.setdefault((said, ours, event[3]), [0, 0])
            seen[0] += 1
            seen[1] += size
    return total, agreeing, wrong, by_phase


def show(wrong, stacks):
    for (said, ours, stack), (count, size) in sorted(wrong.items(), key=lambda item: -item[1][1])[:4]:
        print(f"    {count} blocks, {size} bytes: recorded {ours}, the rule says {said}; innermost first")
        lines = [f for f in stacks[stack]]
        for file, name, line in lines[:8] + ([["...", "", 0]] if len(lines) > 22 else []) + lines[8:][-14:]:
            print(f"        {'/'.join(file.split('/')[-3:])}:{line} {name}: {linecache.getline(file, line).strip()[:70]}")


def main(path, database=None):
    with gzip.open(path, "rt") as file:
        history = json.load(file)
    if database is None:
        phases = [event[4] for event in history["events"]]
        steps, unseen = history["said"].count("step"), sum("output_layer_not_called" in line for line in history["said"])
    else:
        phases = aligned(history["events"], recorded_events(database, history["device"]))
        db = sqlite3.connect(database)
        steps = db.execute("SELECT count(*) FROM step").fetchone()[0]
        unseen = db.execute("SELECT count(*) FROM moment JOIN string ON id = name WHERE text LIKE 'output_layer_not_called %'").fetchone()[0]
    total, agreeing, wrong, by_phase = compare(history, phases)
    faults = [f"no memory in {p}" for p in history["phases"] if not by_phase[p]]
    faults += [f"memory in {p}" for p in by_phase if p not in (*history["phases"], "none")]
    faults += [f"steps {steps}, not {history['steps']}"] * (steps != history["steps"])
    faults += [f"output layers not called {unseen}, not {history['unseen']}"] * (unseen != history["unseen"])
    good = total > 0 and agreeing >= 0.999 * total and not faults
    print(
        f"{'ok  ' if good else 'FAIL'} {history['program']:<18} {len(history['events'])} events, "
        f"{total / 2**20:.1f} MiB, {100 * agreeing / max(total, 1):.4f} % of the bytes agree, "
        f"{sum(n for n, _ in wrong.values())} blocks do not; " + "; ".join(faults or [f"{steps} steps"])
    )
    show(wrong, history["stacks"])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
