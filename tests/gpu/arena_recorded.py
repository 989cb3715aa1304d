"""arena_recorded.py DB... - peaks and calls of the driver, as recordings of the arena's measurements say them.

calls_per_1000: the driver's calls for memory per 1000 blocks allocated or freed, in the last third of these. The arena counts its
own.
"""
import json
import sqlite3
import sys

DRIVER = "'alloc', 'free', 'phys_create', 'phys_release', 'map', 'unmap', 'set_access'"
BLOCKS = "'block_alloc', 'block_free'"


def one(db, sql, *values):
    row = db.execute(sql, values).fetchone()
    return row[0] if row else None


def has(db, name):
    return one(db, "SELECT count(*) FROM sqlite_master WHERE name = ?", name) > 0


def peaks(db):
    row = db.execute("SELECT max(allocated_bytes), max(reserved_bytes) FROM timeline WHERE device = 0").fetchone()
    return {"allocated_peak": row[0], "reserved_peak": row[1]}


def between(path, begin_ns, end_ns):
    """The peaks of allocated and reserved between two readings of CLOCK_MONOTONIC, what held at the first included."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        start = int(one(db, "SELECT value FROM meta WHERE key = 'start_monotonic_ns'"))
        begin, end = begin_ns - start, end_ns - start
        before = one(db, "SELECT max(t_ns) FROM timeline WHERE device = 0 AND t_ns <= ?", begin)
        rows = db.execute("SELECT max(allocated_bytes), max(reserved_bytes) FROM timeline WHERE device = 0 AND t_ns BETWEEN ? AND ?",
                          (begin if before is None else before, end))
        return rows.fetchone()
    finally:
        db.close()


def arena(db):
    """The row of the device's last arena, as a dictionary; {} where there was none, or nothing is known of it."""
    if not has(db, "arena"):
        return {}
    cursor = db.execute("SELECT * FROM arena WHERE device = 0 ORDER BY number DESC LIMIT 1")
    row = cursor.fetchone()
    return dict(zip((column[0] for column in cursor.description), row)) if row else {}


def recorded_calls(db):
    """Of an allocator that is not ours."""
    named = "op IN (SELECT id FROM op WHERE name IN (%s)) AND device = 0"
    blocks, driver = named % BLOCKS, named % DRIVER
    total = one(db, f"SELECT count(*) FROM ev WHERE {blocks}")
    if not total:
        return None
    before = total * 2 // 3
    from_seq = one(db, f"SELECT seq FROM ev WHERE {blocks} ORDER BY seq LIMIT 1 OFFSET ?", before)
    kinds = "SELECT id FROM kind WHERE space IN (SELECT id FROM space WHERE name IN ('pinned', 'registered', 'managed'))"
    calls = one(db, f"SELECT count(*) FROM ev WHERE {driver} AND kind NOT IN ({kinds}) AND seq >= ?", from_seq)
    return 1000 * calls / (total - before)


def losses(db):
    found = [f"{why}: {events}" for why, events in db.execute("SELECT why, events FROM loss WHERE code <> 'thinned'")]
    return found + [what for what, in db.execute("SELECT DISTINCT what FROM mismatch")]


def read(path):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        found, ours = peaks(db), arena(db)
        found["losses"] = losses(db)
        found["calls_per_1000"] = ours.get("last_third_calls_per_thousand") if ours else recorded_calls(db)
        if ours:
            found["arena"] = ours
            found["arena_allocated_peak"], found["arena_reserved_peak"] = ours["peak_allocated_bytes"], ours["peak_reserved_bytes"]
        return found
    finally:
        db.close()


def main():
    for path in sys.argv[1:]:
        print(json.dumps(dict(read(path), file=path)))


if __name__ == "__main__":
    main()
