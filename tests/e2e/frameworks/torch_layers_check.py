"""torch_layers_check.py NAMES LOG DATABASE - holds a recording's layers against what ModuleTracker had open (torch_layers.py).

In forward 99.5 % of each program's bytes must agree, in backward 90 % where the tracker's modules form a chain: it enters and leaves them
by gradients, so what sums gradients up lies beside the module, and it sees no end of modules that are called with keywords.
"""
import collections
import re
import sqlite3
import sys

lines = [line.rstrip("\n").split("\t") for line in open(sys.argv[1])]
names = {int(n): rest for n, *rest in lines if n}
also = {(ours, theirs) for n, ours, theirs, _ in lines if not n}
log = list(map(int, open(sys.argv[2])))
rows = sqlite3.connect(sys.argv[3]).execute(
    "SELECT a.size_bytes, a.layer, s.node IS NOT NULL FROM allocation a LEFT JOIN stack s ON s.id = a.stack WHERE a.op = 'block_alloc' ORDER BY a.alloc_seq"
).fetchall()
assert len(rows) == len(log), f"{len(rows)} blocks, and {len(log)} were made"

frames = sqlite3.connect(sys.argv[3]).execute(
    "SELECT DISTINCT file, function FROM frame WHERE kind = 2 AND (file LIKE '%/torch/nn/modules/module.py' OR file LIKE '%/vramscope/%torch.py')").fetchall()
assert len(frames) > 1 and not any(function.endswith("__call__") for _, function in frames), f"the wrapper is in stacks: {frames}"


def same(ours, theirs):
    """A module that lies nowhere is the caller's to us, and a root of its own to them."""
    return ours == theirs or (ours, theirs) in also or re.sub(r"^.*\.\((\w+)\)", r"\1", ours) == theirs


bytes_ = collections.Counter()
wrong = collections.Counter()
for (size, layer, node), number in zip(rows, log):
    if number == 0:
        continue
    when, theirs, case = names[number]
    nothing = when == "backward" and not theirs
    kind = "unclear" if theirs == "?" or nothing else "same" if same(layer or "", theirs) else "other"
    bytes_[case, when, kind] += size
    if kind == "other":
        wrong[case, when, layer, theirs] += size
failed = False
for case, when in sorted({k[:2] for k in bytes_}):
    agree, other, unclear = (bytes_[case, when, kind] for kind in ("same", "other", "unclear"))
    share = agree / max(1, agree + other)
    print(f"{case:14} {when:9} {share:8.2%} of {agree + other} bytes agree, {unclear} left out")
    failed = failed or (share < 0.995 or unclear > 0 if when == "forward" else share < 0.9)
for (case, when, ours, theirs), size in wrong.most_common(12):
    print(f"    {case}, {when}: {size} bytes in {ours}, theirs {theirs}")
sys.exit(failed)
