"""Proof that the oracle can fail: one value of a good recording is changed, and that must be found. Every column that says something
of memory, ranges or steps is a class. A change in a column that follows from others must be found each time; in
the recorder's own facts, once in several tries.
"""
import os
import random
import shutil
import sqlite3
from concurrent.futures import ProcessPoolExecutor

# What nobody else can know: where a process ran, what its files are called, what the driver or the kernel says.
UNKNOWABLE = {
    "meta": {"key", "value"}, "process": {"*"}, "device": {"*"}, "op": {"name"}, "api": {"*"}, "frame": {"module", "offset", "function", "file", "line"}, "module": {"*"},
    "arena_sample": {"*"}, "string": {"id"}, "phase": {"id"}, "space": {"id"}, "thread": {"process", "tid", "autograd"},
    "context": {"process", "device"}, "kind": {"process", "id"}, "sample": {"process", "source", "host_rss_bytes", "pinned_bytes"},
    "oom": {"process", "stack", "free_bytes", "free_t_ns", "free_reserved_bytes", "process_used_bytes", "process_used_t_ns", "device_used_bytes",
            "device_used_t_ns"},
    "stretch": {"*"}, "upper_bound": {"*"}, "range_fold": {"*"}, "pool_use": {"*"}, "resume": {"*"},
    "mark": {"id", "ring_seq"}, "moment": {"process", "source", "name"}, "mismatch": {"process"}, "loss": {"*"}, "rng": {"process"},
    "phase_stat": {"process"}, "peak": {"process"}, "peak_live": {"process"}, "oom_live": {"process"}, "step": {"process"},
    "range_peak": set(), "counter": {"process", "device"},
}
# The recorder's own facts: which call it was, when, where from.  Rows of some kinds repeat them, others do not.
FACTS = {"ev": {"t", "stack", "range", "kind", "device", "op", "size", "address"}, "kind": {"api", "status", "stream", "thread", "context", "space", "managed"},
         "string": {"text"}, "phase": {"name"}, "stack": {"owner", "parent", "id", "frame"}, "thread": {"id", "name"}, "op": {"id"},
         "space": {"name"}, "context": {"id", "handle"}, "rng": {"name", "domain", "source", "parent", "flags"},
         "peak": {"t_ns", "seq"}, "peak_live": {"peak_seq"}, "phase_stat": {"t_allocated_ns"}, "mismatch": {"what"},
         "counter": {"name"}, "mark": {"upto_seq", "live_seq"}, "range_peak": {"device", "range"},
         "amend": {"by_seq"}, "oom_live": {"space", "address", "phase", "range", "stack", "t_ns", "op"}}

PATIENCE = 20  # so many tries for each one asked for, until one changed fact is found


def classes(db):
    connection = sqlite3.connect(db)
    tables = [r[0] for r in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
    found = [(t, c[1]) for t in tables for c in connection.execute(f"PRAGMA table_info({t})")]
    connection.close()
    return [(t, c) for t, c in found if not {"*", c} & UNKNOWABLE.get(t, set())]


def changed(value, chance):
    if isinstance(value, str):
        return value + "x"
    return value + chance.choice((1, 1, 2, 513, -1)) if value else chance.choice((1, 3, 4096))


def mutate(db, copy, table, column, chance):
    """Changes one value; what was changed, None where there is nothing to change or the table's keys forbid it."""
    shutil.copyfile(db, copy)
    connection = sqlite3.connect(copy)
    keys = [c[1] for c in connection.execute(f"PRAGMA table_info({table})") if c[5]] or ["rowid"]
    given = " AND stack <> 0" if column == "stack" else ""  # an event without one has nothing that another row repeats
    rows = connection.execute(f"SELECT {column}, {', '.join(keys)} FROM {table} WHERE {column} IS NOT NULL{given}").fetchall()
    if not rows:
        return None
    value, *key = chance.choice(rows)
    new = changed(value, chance)
    try:
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE " + " AND ".join(f"{k} = ?" for k in keys), (new, *key))
        connection.commit()
    except sqlite3.IntegrityError:
        return None
    finally:
        connection.close()
    return f"{table}.{column} of {key}: {value} -> {new}"


def try_class(recordings, tries, check, directory, table, column):
    """How many changes of one column were found, and those that were not."""
    chance = random.Random(f"{table}.{column}")
    copy = f"{directory}/{table}.{column}.db"
    found, missed = 0, []
    fact = column in FACTS.get(table, set())
    for db, log in recordings * tries * PATIENCE:
        if found + len(missed) == tries and not (fact and not found) or len(missed) == PATIENCE * tries:
            break
        what = mutate(db, copy, table, column, chance)
        if what is None:
            continue
        try:
            wrong = check(copy, log)
        except Exception as problem:  # it cannot even be read
            wrong = [str(problem)]
        if wrong:
            found += 1
        else:
            missed.append(f"{what} in {db}")
    if os.path.exists(copy):
        os.unlink(copy)
    return table, column, found, missed


def prove(recordings, tries, check, directory):
    """RECORDINGS: pairs of database and log, which are good.  True where every class was found."""
    bad, done, never = 0, 0, []
    with ProcessPoolExecutor() as pool:
        jobs = [pool.submit(try_class, recordings, tries, check, directory, *one) for one in classes(recordings[0][0])]
        outcomes = [job.result() for job in jobs]
    for table, column, found, missed in outcomes:
        done += found + len(missed)
        if found + len(missed) == 0:
            never.append(f"{table}.{column}")
        elif missed and not (column in FACTS.get(table, set()) and found):
            bad += 1
            print(f"{table}.{column}: {found} of {found + len(missed)} changes found; not: {missed[0]}")
    print(f"{done} changes, {bad} classes not found" + (f"; no row had: {', '.join(never)}" if never else ""))
    return bad == 0
