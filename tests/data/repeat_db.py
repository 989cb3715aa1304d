#!/usr/bin/env python3
"""repeat_db.py RECORDING.db NEW.db STEP TIMES - a long recording of a short one, to measure what commands take: its step STEP comes TIMES
more.

Each repetition frees what the one before left, block by block.  What was asked of the driver is not repeated; zones and stretches, which
pictures and a ledger that goes on ask for, are left out.
"""
import shutil
import sqlite3
import sys

ALLOC, FREE = 20, 21
REPEATED = ALLOC, FREE, 30, 31, 33 # with ranges that begin and end, and the step's end


def main(recording, new, step, times):
    step, times = int(step), int(times)
    shutil.copyfile(recording, new)
    db = sqlite3.connect(new)
    db.execute("PRAGMA journal_mode = OFF")
    ends = dict(db.execute("SELECT step, seq FROM step"))
    first, last = ends[step - 1] + 1, ends[step]
    events = list(db.execute("SELECT * FROM ev WHERE seq BETWEEN ? AND ? ORDER BY seq", (first, last)))
    t_first, t_last = events[0][1], events[-1][1]
    events = [e for e in events if e[2] in REPEATED]
    n, duration = len(events), max(t_last - t_first, 1) + 1
    place = {e[0]: last - n + 1 + i for i, e in enumerate(events)}  # of the repeated events, if they were the step's last
    more, later = n * times, duration * times
    # what is born in the step and lives on stands for what was there before and ends in it
    born = {e[0]: e for e in events if e[2] == ALLOC}
    ended = {e[10] for e in events if e[2] == FREE}
    left = {}
    for seq, e in born.items():
        if seq not in ended:
            left.setdefault(e[7], []).append(seq)
    before = [e for e in events if e[2] == FREE and e[10] < first]
    twin = {e[10]: left[e[7]].pop(0) for e in before if left.get(e[7])}
    rest = [seq for size in sorted(left) for seq in left[size]]
    others = sorted((e for e in before if e[10] not in twin), key=lambda e: e[7])
    assert len(rest) == len(others), "the step leaves more than it ends"
    twin.update(zip((e[10] for e in others), rest))
    ranges = list(db.execute("SELECT * FROM rng WHERE step = ?", (step,)))
    most = db.execute("SELECT max(id) FROM rng").fetchone()[0]
    peaks = list(db.execute("SELECT * FROM range_peak WHERE range IN (SELECT id FROM rng WHERE step = ?)", (step,)))
    roles = list(db.execute("SELECT * FROM framework_role WHERE alloc_seq BETWEEN ? AND ?", (first, last)))

    # room: what comes behind the step moves up
    for table, column in (("ev", "seq"), ("framework_role", "alloc_seq"), ("step", "seq"), ("live", "alloc_seq"), ("amend", "seq")):
        db.execute(f"UPDATE {table} SET {column} = -({column} + ?) WHERE {column} > ?", (more, last))
        db.execute(f"UPDATE {table} SET {column} = -{column} WHERE {column} < 0")
    for table, column in (("sample", "seq"), ("rng", "first_seq"), ("peak", "seq"), ("peak_live", "alloc_seq"), ("peak_live", "peak_seq"),
                          ("amend", "by_seq"), ("ev", "mate"), ("oom", "seq"), ("oom_live", "oom_seq"), ("oom_live", "alloc_seq")):
        db.execute(f"UPDATE {table} SET {column} = {column} + ? WHERE {column} > ?", (more, last))
    db.execute("UPDATE ev SET t = t + ? WHERE seq > ?", (later, last))
    db.execute("UPDATE step SET t_ns = t_ns + ?, step = step + ? WHERE step > ?", (later, times, step))
    db.execute("UPDATE rng SET t_push = t_push + ?, t_pop = t_pop + ?, step = step + ? WHERE step > ?", (later, later, times, step))
    db.execute("UPDATE mark SET upto_seq = upto_seq + ?, ring_seq = ring_seq + ?, live_seq = live_seq + ?", (more, more, more))
    for table in "zone", "stretch":
        db.execute(f"DELETE FROM {table}")

    def repeated():
        for k in range(1, times + 1):
            shift, number = k * n, {r[0]: most + (k - 1) * len(ranges) + i + 1 for i, r in enumerate(ranges)}
            for e in events:
                e = list(e)
                if e[10] >= first:
                    e[10] = place[e[10]] + shift
                elif e[10] in twin:
                    e[6:8] = born[twin[e[10]]][6:8]
                    e[10] = place[twin[e[10]]] + shift - n if k > 1 else twin[e[10]]
                e[0] = place[e[0]] + shift
                e[1] += k * duration
                e[8] = number.get(e[8], e[8])
                yield e

    db.executemany("INSERT INTO ev VALUES(" + ",".join("?" * 14) + ")", repeated())
    columns = [c[1] for c in db.execute("PRAGMA table_info(rng)")]
    for k in range(1, times + 1):
        number = {r[0]: most + (k - 1) * len(ranges) + i + 1 for i, r in enumerate(ranges)}
        for r in ranges:
            row = dict(zip(columns, r))
            row.update(id=number[row["id"]], parent=number.get(row["parent"], row["parent"]), step=step + k, first_seq=place.get(row["first_seq"], last) + k * n,
                       t_push=row["t_push"] + k * duration, t_pop=row["t_pop"] + k * duration)
            db.execute("INSERT INTO rng VALUES(" + ",".join("?" * len(row)) + ")", list(row.values()))
        db.executemany("INSERT INTO range_peak VALUES(?,?,?,?,?)", [(number[p[0]], *p[1:4], p[4] + k * duration) for p in peaks])
        db.executemany("INSERT INTO framework_role VALUES(?,?)", [(place[seq] + k * n, role) for seq, role in roles])
        db.execute("INSERT INTO step SELECT process, ?, t_ns + ?, ? FROM step WHERE step = ?", (step + k, k * duration, last + k * n, step))
    # the last repetition's blocks live on, not the step's own
    for old in twin.values():
        db.execute("UPDATE ev SET mate = ? WHERE mate = ? AND seq > ?", (place[old] + more, old, last + more))
        db.execute("UPDATE live SET alloc_seq = ? WHERE alloc_seq = ?", (place[old] + more, old))
    db.commit()
    db.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
