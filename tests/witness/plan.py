"""plan.py - from a recording under the witness (witness.c): when each block was idle, as numbers of births and work.

    plan.py make DB LOG PLAN [N]    writes PLAN for the second run.  N: also takes one block away one use too early, so that the program must die:
                                    the Nth suitable one.  A use by a kernel with few parameters is preferred, since a large structure may hold
                                    an address that is never used
    plan.py same LOG LOG            exit status 1 where two runs did not make the same births and work

A block is idle from its birth to its first use, in its longest pause, and from its last use to its free.  What may have been used unseen
(block_use.unseen) is left alone, as `vramscope waste` does.
"""
import bisect
import collections
import sqlite3
import struct
import sys

BIRTH = 1 << 63


def entries(path):
    with open(path, "rb") as f:
        data = f.read()
    out = []
    for t, what in struct.iter_unpack("<QQ", data):
        if not t:
            break
        out.append((t, what))
    return out


class Run:
    def __init__(self, path):
        self.entries = entries(path)
        self.sizes = [what - BIRTH for _, what in self.entries if what >= BIRTH]
        self.times = [t for t, what in self.entries if what < BIRTH]

    def work_at(self, t):
        """The number of the work that was under way at T, or had been last."""
        return bisect.bisect_right(self.times, t)


def blocks_of(db):
    """In the order of their births: size, first use, last use, pause from and to (times of the monotonic clock or None), unseen, uses, last kernel."""
    start = int(db.execute("SELECT value FROM meta WHERE key = 'start_monotonic_ns' AND process = 1").fetchone()[0])
    rows = db.execute("""SELECT a.size_bytes, u.first_use_ns, u.last_use_ns, u.idle_end_ns - u.idle_ns, u.idle_end_ns, u.unseen, u.uses, u.last_by, u.kinds, u.alloc_seq
        FROM allocation a LEFT JOIN block_use u ON u.alloc_seq = a.alloc_seq WHERE a.space = 'arena' ORDER BY a.alloc_seq""")
    for size, first, last, pause, pause_end, unseen, uses, by, kinds, followed in rows:
        at = [None if t is None else t + start for t in (first, last, pause, pause_end)]
        yield size, *at, unseen if followed is not None else "not followed", uses, by, kinds


def make(path, log, plan, planted):
    run = Run(log)
    blocks = list(blocks_of(sqlite3.connect(path)))
    if [b[0] for b in blocks] != run.sizes:
        sys.exit(f"the recording has {len(blocks)} blocks, the log {len(run.sizes)}, or of other sizes")
    spans, candidates, left = [], [], 0
    for birth, (size, first, last, pause, pause_end, unseen, uses, by, kinds) in enumerate(blocks, 1):
        if unseen:
            left += size
            continue
        if not uses:
            spans.append((birth, size, 0, 0))
            continue
        of = [(0, run.work_at(first))]
        if pause is not None:
            of.append((run.work_at(pause), run.work_at(pause_end)))
        of.append((run.work_at(last), 0))
        if of[0][1] == 0:
            sys.exit(f"block {birth} was used before the first work that is counted")
        of = [(a, b) for a, b in of if a < b or b == 0]
        spans += [(birth, size, a, b) for a, b in of]
        often = uses > 1 and all(of[-1][0] > b + 1 for _, b in of[:-1])
        candidates.append((often, "elementwise_kernel" in (by or ""), size, birth, by or "a graph"))
    if planted:
        often, _, size, birth, by = sorted(candidates, reverse=True)[planted - 1]
        at = [i for i, s in enumerate(spans) if s[0] == birth]
        if often:
            spans[at[-1]] = (birth, size, spans[at[-1]][2] - 1, 0)
        else:  # used once only, or in one work after the other: it is never there
            spans[at[0] : at[-1] + 1] = [(birth, size, 0, 0)]
        print(f"planted: block {birth} of {size} bytes is taken before its last use, by {by[:80]}")
    with open(plan, "w") as f:
        f.writelines(" ".join(map(str, s)) + "\n" for s in spans)
    everything, why = sum(run.sizes), collections.Counter(b[5] for b in blocks if b[5])
    why = " (" + ", ".join(f"{n} {what}" for what, n in why.items()) + ")" if why else ""
    print(f"{len(blocks)} blocks of {everything >> 20} MiB, {len(run.times)} works; {len(spans)} idle spans; left alone {left >> 20} MiB{why}")


def same(a, b):
    what = [[what for _, what in entries(path)] for path in (a, b)]
    if what[0] != what[1]:
        n = next((i for i, (x, y) in enumerate(zip(*what)) if x != y), min(map(len, what)))
        sys.exit(f"the runs differ: {len(what[0])} and {len(what[1])} births and works, first at {n}")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(*sys.argv[2:5], int(sys.argv[5]) if len(sys.argv) > 5 else 0)
    else:
        same(*sys.argv[2:4])
