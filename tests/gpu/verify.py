"""verify.py RUN.db FACTS.json [--lines SHARE] [--arena]: holds a recording against what PyTorch's allocator has counted (counters,
below), to the byte. --arena: that allocator was the arena, whose chunks are what is reserved.
"""
import argparse
import json
import sqlite3
import sys
import time

FAILED = 0


def counters():
    """For the programs: what FACTS has to say under "counters"."""
    import torch

    stats = torch.cuda.memory_stats()
    return {"t_ns": time.monotonic_ns(), "max_memory_allocated": torch.cuda.max_memory_allocated(), "max_memory_reserved": torch.cuda.max_memory_reserved(),
            "memory_allocated": torch.cuda.memory_allocated(), "memory_reserved": torch.cuda.memory_reserved(),
            "allocations": stats["allocation.all.allocated"], "frees": stats["allocation.all.freed"]}


def check(good, what):
    global FAILED
    FAILED += not good
    print(("ok   " if good else "FAIL ") + what)


def equal(ours, theirs, what):
    check(ours == theirs, f"{what}: database {ours}, program {theirs}" + ("" if ours == theirs else f", difference {ours - theirs if None not in (ours, theirs) else 'unknown'}"))


def one(db, sql, *args):
    return db.execute(sql, args).fetchone()[0]


def check_counters(db, facts):
    c = facts["counters"]
    mark = c["t_ns"] - one(db, "SELECT value FROM meta WHERE key = 'start_monotonic_ns'")
    seq = one(db, "SELECT max(seq) FROM event WHERE t_ns <= ?", mark)
    equal(one(db, "SELECT max(framework_bytes) FROM event WHERE seq <= ?", seq), c["max_memory_allocated"], "peak of framework allocated")
    equal(one(db, "SELECT max(reserved_bytes - direct_bytes) FROM event WHERE seq <= ? AND device = 0", seq), c["max_memory_reserved"],
          "peak of managed reserved")
    last = db.execute("SELECT framework_bytes, reserved_bytes - direct_bytes FROM event WHERE seq <= ? AND device = 0 ORDER BY seq DESC LIMIT 1",
                      (seq,)).fetchone()
    equal(last[0], c["memory_allocated"], "framework allocated at the mark")
    equal(last[1], c["memory_reserved"], "managed reserved at the mark")
    equal(one(db, "SELECT count(*) FROM event WHERE op = 'block_alloc' AND seq <= ?", seq), c["allocations"], "allocations")
    equal(one(db, "SELECT count(*) FROM event WHERE op = 'block_free' AND seq <= ?", seq), c["frees"], "frees")
    equal(one(db, "SELECT count(*) FROM event WHERE op = 'block_free' AND mate = 0"), 0, "frees without their allocation")


MOVED = """SELECT count(*) FROM (SELECT op, space, reserved_bytes <> lag(reserved_bytes) OVER (PARTITION BY device ORDER BY seq) AS moved FROM event)
    WHERE moved AND ((op IN ('alloc', 'free', 'free_failed') AND space = 'arena') OR op IN ('block_alloc', 'block_free'))"""


def check_arena(db, counters):
    """PyTorch's own counters were read when its last blocks were still alive: peaks are the same to the byte."""
    equal(one(db, "SELECT peak_bytes FROM peak WHERE device = 0 AND kind = 'framework'"), counters["max_memory_allocated"], "peak of framework allocated")
    equal(one(db, "SELECT count(*) FROM event WHERE op = 'block_alloc'"), counters["allocations"], "allocations")
    equal(one(db, "SELECT count(*) FROM event WHERE device >= 0 AND allocated_bytes > reserved_bytes"), 0, "events with more allocated than reserved")
    equal(one(db, MOVED), 0, "blocks that move what is reserved")
    equal(one(db, "SELECT count(*) FROM event WHERE op = 'reclassify'"), 0, "allocations classified late")
    for device, held, peak in db.execute(
            "SELECT l.device, sum(l.size_bytes), p.peak_bytes FROM live_at_peak l JOIN peak p ON p.device = l.device AND p.kind = 'allocated' GROUP BY 1"):
        equal(held, peak, f"device {device}: who held the peak, and the peak")
    arenas = db.execute("SELECT device, granule_bytes * (created - released - lost), reserved_bytes, lost + lost_blocks FROM arena").fetchall()
    check(len(arenas) > 0, f"{len(arenas)} arena(s) served")
    for device, granules, reserved, lost in arenas:
        equal(granules, reserved, f"arena of device {device}: granules, and reserved")
        equal(lost, 0, "lost by the arena")


def check_losses(db):
    equal(one(db, "SELECT count(*) FROM mismatch"), 0, "mismatches against the framework's totals")
    for row in db.execute("SELECT seq, t_ns, what, ours_bytes, theirs_bytes FROM mismatch LIMIT 5"):
        print("     mismatch", *row)
    lost = one(db, "SELECT coalesce(sum(events), 0) FROM loss")
    equal(lost, 0, "events lost")


def check_lines(db, wanted):
    """A line of code: where none is known, the autograd node's name stands there."""
    born, lined = db.execute("SELECT count(*), sum(line GLOB '*:[0-9]*') FROM allocation WHERE op = 'block_alloc' AND phase = 'backward'").fetchone()
    check(born > 0 and lined >= wanted * born, f"lines of {lined} of {born} blocks born in backward")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("db")
    p.add_argument("facts")
    p.add_argument("--arena", action="store_true")
    p.add_argument("--lines", type=float, help="this share of the blocks born in backward has a line")
    args = p.parse_args()
    db = sqlite3.connect(args.db)
    with open(args.facts) as f:
        facts = json.load(f)
    check(one(db, "PRAGMA integrity_check") == "ok", "integrity of the database")
    if args.arena:
        check_arena(db, facts["counters"])
    else:
        check_counters(db, facts)
    check_losses(db)
    if "ooms" in facts and not args.arena:
        equal(one(db, "SELECT count(*) FROM event WHERE op = 'oom'"), facts["ooms"], "requests that the framework gave up")
    if args.lines:
        check_lines(db, args.lines)
    print(f"{args.db}: {'FAILED ' + str(FAILED) if FAILED else 'all equal'}; {one(db, 'SELECT count(*) FROM event')} events")
    return FAILED > 0


if __name__ == "__main__":
    sys.exit(main())
