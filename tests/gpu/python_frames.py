"""python_frames.py play HISTORY: trains with torch's history on, and writes an alloc a line | compare DB HISTORY. Torch keeps co_name,
we keep the qualified name, whose last part it is.
"""
import importlib.util
import json
import os
import re
import sqlite3
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))
WANTED = 0.995


# ---- the program ----

def play(path):
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from torch.utils.checkpoint import checkpoint

    from bench_models import Decoder

    # context="all" would ask for a stack at a free while checkpoint's exception is in flight, which torch 2.11 does not survive
    torch.cuda.memory._record_memory_history(enabled="all", context="alloc", stacks="python")

    class Squared(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    class Checkpointed(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))

        def forward(self, x):
            for layer in self.layers:
                x = checkpoint(lambda y, inner=layer: Squared.apply(F.gelu(inner(y))), x, use_reentrant=False)
            return x

    def batches(n):
        for i in range(n):
            yield torch.randint(4096, (4, 129), device="cuda"), torch.randn(64, 512, device="cuda")

    def made(i):
        place = {"torch": torch}
        exec(compile(f"def made_{i}(x):\n    y = x + {i}\n    return y * 2\n", f"<made {i}>", "exec"), place)
        return place[f"made_{i}"]

    torch.manual_seed(1)
    model = Decoder(layers=6, width=256, heads=4, vocab=4096, context=128).cuda()
    other = Checkpointed(512).cuda()
    optimizer = torch.optim.AdamW([*model.parameters(), *other.parameters()], lr=1e-4)
    for i, (ids, x) in enumerate(batches(8)):
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss = loss + other(x).square().mean() + sum(made(20 * i + k)(x).mean() for k in range(20))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        [torch.empty(n, device="cuda") for n in (1000, 2000)]
    torch.cuda.synchronize()
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    with open(path, "w") as f:
        for e in snapshot["device_traces"][0]:
            if e["action"] == "alloc":
                frames = [[s["filename"], s["line"], s["name"]] for s in e.get("frames", [])]
                f.write(json.dumps([e["addr"], e["size"], frames]) + "\n")


# ---- the comparison ----

def recorded(path):
    """(address, size, Python frames) of each block, in order."""
    db = sqlite3.connect(path)
    frames = {i: (file, line, function) for i, file, line, function in
              db.execute("SELECT id, file, line, function FROM frame WHERE kind = 2")}
    nodes = {i for i, in db.execute("SELECT id FROM frame WHERE kind = 3")}  # what made one ran in the forward, not now (lines.py)
    rows = {i: (parent, frame) for i, parent, frame in db.execute("SELECT id, parent, frame FROM stack")}
    chains = {0: []}

    def chain(stack):
        if stack not in chains:
            parent, frame = rows[stack]
            chains[stack] = [] if frame in nodes else ([frames[frame]] if frame in frames else []) + chain(parent)
        return chains[stack]

    sys.setrecursionlimit(10000)
    return [(a, s, chain(i), line) for a, s, i, line in
            db.execute("SELECT address, size_bytes, stack, line FROM allocation WHERE op = 'block_alloc' AND device = 0 ORDER BY alloc_seq")]


def rule():
    """tests/oracle/lines.py, which works out the shown lines a second time."""
    place = os.path.join(HERE, "..", "oracle", "lines.py")
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location("oracle_lines", place))
    module.__spec__.loader.exec_module(module)
    return module


RULE = rule()


def column(frames):
    """What stands before the function's name in the column line: FILE:LINE, or FILE:LINE > FILE:LINE; "" where the frames are torch's and Python's alone."""
    frames = [types.SimpleNamespace(kind=RULE.PYTHON, file=file, line=line, function=function) for file, line, function in frames]
    line, caller, _ = RULE.shown(frames)
    if line is None or RULE.whose(line.file) is None:
        return ""
    return " > ".join(f"{f.file}:{f.line}" for f in (caller, line) if f)


def plain(frames):
    return [(file, line, function.rpartition(".")[2]) for file, line, function in frames]


def compare(database, history):
    with open(history) as f:
        theirs = [(a, s, [tuple(x) for x in frames]) for a, s, frames in map(json.loads, f)]
    ours = recorded(database)
    addresses = sum(o[0] == t[0] for o, t in zip(ours, theirs))
    print(f"  blocks: {len(ours)} recorded, {len(theirs)} in torch's history, {addresses} at the same address in the same place")
    good = len(ours) == len(theirs) == addresses and len(ours) > 1000
    pairs = [(plain(o[2]), t[2], (o[3] or "").removeprefix("forward: ")) for o, t in zip(ours, theirs)]
    with_python = [p for p in pairs if p[1]]
    without = [p for p in pairs if not p[1]]
    print(f"  {len(with_python)} born under Python; of the other {len(without)}, born in backward, {sum(bool(p[2]) for p in without)} have a line of the "
          f"forward's or a node's name, {sum(bool(p[0]) for p in without)} frames of their own")
    good = good and not any(p[0] for p in without) and all(p[2] for p in without)
    for what, same in (("innermost frame", lambda o, t, line: o[:1] == t[:1]), ("all frames", lambda o, t, line: o == t),
                       ("lines shown", lambda o, t, line: column(o) == column(t)),
                       ("column line", lambda o, t, line: line.startswith(column(t) + " ") or not column(t))):
        n = sum(bool(same(*p)) for p in with_python)
        share = n / max(1, len(with_python))
        good = good and share >= WANTED
        print(f"  {what:16} the same for {n} of {len(with_python)}: {100 * share:.3f} %")
        differing = [p for p in with_python if not same(*p)][:2]
        for o, t, line in differing:
            print(f"    ours {o[:3]} ({len(o)}), theirs {t[:3]} ({len(t)}), line {line}")
    return good


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    sys.exit(not {"play": lambda: play(*rest) is None, "compare": lambda: compare(*rest)}[command]())
