#!/usr/bin/env python3
"""join_db.py SCHEMA OUT FILE FILE... - copies recordings into one file, each as a process of its own.

Numbers of events and ranges move up by 2^40 for each process, as schema.sql says; ids of kinds, which have their process
beside them, move behind those that are there.  Names must be the same in all files, under the same ids: files of one make_db.py
are so, and no others are asked for here.
"""
import sqlite3
import sys

SHARED = ("phase", "op", "space", "api", "string", "stack", "frame", "module")
# columns that hold the number of an event or of a range; 0 stands for none
NUMBERS = {
    "ev": ("seq", "range", "mate"), "amend": ("seq", "by_seq"), "live": ("alloc_seq", "range"), "mark": ("upto_seq", "live_seq"),
    "zone": ("first_seq", "last_seq", "stretch"), "stretch": ("first_seq", "last_seq"), "range_fold": ("stretch",),
    "rng": ("id", "parent", "first_seq"), "range_peak": ("range",), "peak": ("seq",), "access": ("alloc_seq",), "peak_live": ("alloc_seq", "peak_seq", "range"),
    "oom": ("seq", "range"), "oom_live": ("oom_seq", "alloc_seq", "range"), "step": ("seq",), "moment": ("seq",), "sample": ("seq",),
    "upper_bound": ("from_seq", "to_seq"), "mismatch": ("seq",)}
NO_MATE = (23, 24)  # of limit and overhead ev.mate is no number


def value(table, column, row, process, kinds):
    v = row[column]
    if table == "ev" and column == "mate" and row["op"] in NO_MATE:
        return v
    if column in NUMBERS.get(table, ()) and v:
        return v + ((process - 1) << 40)
    if table == "ev" and column == "kind" or table == "kind" and column == "id":
        return v + kinds
    if table == "process" and column == "id" or table == "mark" and column == "id":
        return process
    if column == "process":
        return process if v else v  # 0 in meta: of the file
    return v


def join(schema, out, files):
    db = sqlite3.connect(out)
    db.executescript(open(schema).read())
    for process, path in enumerate(files, 1):
        source = sqlite3.connect(path)
        source.row_factory = sqlite3.Row
        kinds = db.execute("SELECT coalesce(max(id), 0) FROM kind").fetchone()[0]
        for (table,) in source.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"):
            rows = source.execute(f"SELECT * FROM {table}").fetchall()
            if table in SHARED and process > 1:
                mine = set(map(tuple, db.execute(f"SELECT * FROM {table}")))
                ids = {r[0] for r in mine}
                if any(tuple(r) not in mine and r[0] in ids for r in rows):
                    sys.exit(f"join_db.py: {path}: {table} has other names than {files[0]}")
                rows = [r for r in rows if r[0] not in ids]
            for r in rows:
                values = [value(table, c, r, process, kinds) for c in r.keys()]
                verb = "INSERT OR IGNORE" if table == "meta" and not r["process"] else "INSERT"
                db.execute(f"{verb} INTO {table} VALUES({','.join('?' * len(values))})", values)
    db.commit()


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("usage: " + __doc__.split("\n")[0])
    join(sys.argv[1], sys.argv[2], sys.argv[3:])
