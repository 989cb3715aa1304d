#!/usr/bin/env python3
"""renew_db.py SCHEMA OLD[.xz] NEW - a recording of an earlier schema as one of SCHEMA (shim/trace/schema.sql).

Tables keep what both versions have; columns that came later are NULL.  For recordings that lie in tests/data, which nobody makes anew
because they come from a GPU.
"""
import lzma
import os
import re
import sqlite3
import sys
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "oracle"))
import lines


# of schema 12, what 13 has in other columns or forms
SHORTER = {
    "ev": {"reserved": """CASE WHEN reserved >= 0 THEN reserved
        WHEN -reserved >= {direct} AND (-reserved - {direct}) % 2097152 = 0 THEN -2 * ((-reserved - {direct}) / 2097152) - 1
        ELSE 2 * reserved - 2 END""".format(direct="CASE WHEN direct < 0 THEN -direct ELSE direct * 512 END")},
    "access": {"span": "last - first", "gap_left": "last - gap_end",
               "steps": """CASE WHEN coalesce(first_step, last_step, steps) IS NULL THEN end_step
                   ELSE json_array(first_step, last_step, end_step, steps) END"""}}


def renew_lines(db):
    """Before 14 a stack had no caller, and its line went by another rule."""
    db.row_factory = sqlite3.Row
    frames = {f["id"]: types.SimpleNamespace(**f) for f in db.execute("SELECT * FROM main.frame")}
    stacks = {s["id"]: (s["parent"], s["frame"]) for s in db.execute("SELECT id, parent, frame FROM main.stack")}
    for stack in stacks:
        path, at = [], stack
        while at in stacks:
            path.append(frames.get(stacks[at][1]))
            at = stacks[at][0]
        line, caller, forward = lines.shown(path)
        db.execute("UPDATE main.stack SET line = ?, caller = ?, forward = ?, again = ? WHERE id = ?",
                   (line and line.id, caller and caller.id, int(forward), int(lines.again(path)), stack))


def renew(schema, old, new):
    source = old
    if old.endswith(".xz"):
        source = new + ".old"
        with lzma.open(old) as packed, open(source, "wb") as plain:
            plain.write(packed.read())
    with open(os.path.join(os.path.dirname(schema), "schema_version.h")) as f:
        version = int(re.search(r"VS_SCHEMA_VERSION (\d+)", f.read())[1])
    db = sqlite3.connect(new)
    with open(schema) as f:
        db.executescript(f.read())
    db.execute("ATTACH ? AS old", (source,))
    was = int(db.execute("SELECT value FROM old.meta WHERE key = 'schema_version'").fetchone()[0])
    tables = "SELECT name FROM {}.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    theirs = {name for (name,) in db.execute(tables.format("old"))}
    for (name,) in db.execute(tables.format("main")).fetchall():
        if name not in theirs:
            continue
        known = {row[1] for row in db.execute(f"PRAGMA old.table_info('{name}')")}
        shorter = SHORTER.get(name, {}) if was < 13 else {}
        columns = [row[1] for row in db.execute(f"PRAGMA main.table_info('{name}')") if row[1] in known or row[1] in shorter]
        names, values = ", ".join(f'"{c}"' for c in columns), ", ".join(shorter.get(c, f'"{c}"') for c in columns)
        db.execute(f'DELETE FROM main."{name}"')
        db.execute(f'INSERT INTO main."{name}"({names}) SELECT {values} FROM old."{name}"')
    if was < 14:
        renew_lines(db)
    db.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", (version,))
    application = db.execute("PRAGMA old.application_id").fetchone()[0]
    db.execute(f"PRAGMA main.application_id = {application}")
    db.commit()
    db.execute("DETACH old")
    db.close()
    if source != old:
        os.unlink(source)


if __name__ == "__main__":
    renew(*sys.argv[1:])
