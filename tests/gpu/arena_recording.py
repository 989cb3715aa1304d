"""Holds a recording of a program that the arena served against itself, and against what the program noted of itself:
arena_recording.py RUN.db [FACTS.json] [--like OTHER.db].

Every check prints one line "ok ..." or "FAIL ..."; the exit status is 1 if any failed.  Equality is to the byte.
"""
import argparse
import json
import sqlite3
import sys

FAILED = 0
MIB = 1 << 20
MOVED = """SELECT count(*) FROM (SELECT op, space, reserved_bytes <> lag(reserved_bytes) OVER (PARTITION BY device ORDER BY seq) AS moved FROM event)
    WHERE moved AND ((op IN ('alloc', 'free', 'free_failed') AND space = 'arena') OR op IN ('block_alloc', 'block_free'))"""
CURVE = "SELECT op, size_bytes, phase, direct_bytes FROM event WHERE op IN ('alloc', 'free') AND device >= 0 ORDER BY seq"


def check(good, what):
    global FAILED
    FAILED += not good
    print(("ok   " if good else "FAIL ") + what)


def equal(ours, theirs, what):
    check(ours == theirs, f"{what}: {ours}, {theirs}")


def one(db, sql):
    row = db.execute(sql).fetchone()
    return row[0] if row else None


def check_itself(db):
    equal(one(db, "SELECT count(*) FROM event WHERE device >= 0 AND allocated_bytes > reserved_bytes"), 0, "events with more allocated than reserved")
    equal(one(db, MOVED), 0, "blocks that move what is reserved")
    equal(one(db, "SELECT count(*) FROM mismatch"), 0, "mismatches against the framework's totals")
    equal(one(db, "SELECT coalesce(sum(events), 0) FROM loss"), 0, "events lost")
    equal(one(db, "SELECT count(*) FROM event WHERE op = 'reclassify'"), 0, "allocations classified late")
    for process, device, held, peak in db.execute(
            "SELECT l.process, l.device, sum(l.size_bytes), p.peak_bytes FROM live_at_peak l JOIN peak p ON p.device = l.device AND p.kind = 'allocated' GROUP BY 2"):
        equal(held, peak, f"device {device}: who held the peak, and the peak")
    arenas = db.execute("SELECT * FROM arena")
    names = [c[0] for c in arenas.description]
    arenas = [dict(zip(names, row)) for row in arenas]
    check(len(arenas) > 0, f"{len(arenas)} arena(s) served")
    for a in arenas:
        equal(a["granule_bytes"] * (a["created"] - a["released"] - a["lost"]), a["reserved_bytes"], f"arena of device {a['device']}: granules, and reserved")
        equal(a["lost"] + a["lost_blocks"], 0, "lost by the arena")
        print(f"     {a['mallocs']} mallocs, {a['hits']} hits, {a['view_hits']} view hits, {a['driver_calls']} driver calls "
              f"({a['calls_per_thousand']:.2f} per 1000, last third {a['last_third_calls_per_thousand']}), follows {a['follows']}, settles {a['settles']}, "
              f"free waits {a['free_waits']}; at its peak {a['at_peak_reserved_bytes'] / MIB:.1f} MiB for {a['peak_allocated_bytes'] / MIB:.1f} MiB "
              f"({a['at_peak_reserved_bytes'] / max(a['peak_allocated_bytes'], 1):.4f}), idle {a['at_peak_idle_bytes'] / MIB:.1f}, "
              f"deferred {a['at_peak_deferred_bytes'] / MIB:.1f}; {one(db, 'SELECT count(*) FROM arena_sample')} samples")


def check_facts(db, counters):
    """PyTorch's own counters were read when its last blocks were still alive: peaks are the same to the byte."""
    peak = lambda kind: one(db, f"SELECT peak_bytes FROM peak WHERE device = 0 AND kind = '{kind}'")
    equal(peak("framework"), counters["max_memory_allocated"], "peak of framework allocated")
    managed = peak("managed_reserved")
    if managed:  # PyTorch's caching allocator on top; its own place taken, the arena's granules are what it reserves
        equal(managed, counters["max_memory_reserved"], "peak of managed reserved")
    equal(one(db, "SELECT count(*) FROM event WHERE op = 'block_alloc'"), counters["allocations"], "allocations")


def print_residual(db):
    row = db.execute("SELECT source, driver_used_bytes, reserved_bytes FROM sample WHERE device = 0 ORDER BY driver_used_bytes DESC LIMIT 1").fetchone()
    if row:
        print(f"     driver used {row[1] / MIB:.1f} MiB ({row[0]}), reserved {row[2] / MIB:.1f} MiB, residual {(row[1] - row[2]) / MIB:.1f} MiB")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("db")
    p.add_argument("facts", nargs="?")
    p.add_argument("--like", help="a recording whose driver allocations were the same, served by the driver")
    args = p.parse_args()
    db = sqlite3.connect(args.db)
    check(one(db, "PRAGMA integrity_check") == "ok", "integrity of the database")
    check_itself(db)
    if args.facts:
        with open(args.facts) as f:
            check_facts(db, json.load(f)["counters"])
    if args.like:
        other = sqlite3.connect(args.like)
        equal(db.execute(CURVE).fetchall() == other.execute(CURVE).fetchall(), True, "allocated, event by event, as where the driver served")
    print_residual(db)
    print(f"{args.db}: {'FAILED ' + str(FAILED) if FAILED else 'all equal'}; {one(db, 'SELECT count(*) FROM event')} events")
    return FAILED > 0


if __name__ == "__main__":
    sys.exit(main())
