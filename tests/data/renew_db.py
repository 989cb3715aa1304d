#!/usr/bin/env python3
"""renew_db.py SCHEMA OLD[.xz] NEW - a recording of an earlier schema as one of SCHEMA (shim/trace/schema.sql), for those of tests/data.

Columns that came later are NULL: what a change of the schema can say of them is added here.
"""
import lzma
import os
import re
import sqlite3
import sys


def renew(schema, old, new):
    source = old
    if old.endswith(".xz"):
        source = new + ".old"
        with lzma.open(old) as packed, open(source, "wb") as plain:
            plain.write(packed.read())
    with open(os.path.join(os.path.dirname(schema), "database.h")) as f:
        version = int(re.search(r"VS_SCHEMA_VERSION (\d+)", f.read())[1])
    db = sqlite3.connect(new)
    with open(schema) as f:
        db.executescript(f.read())
    db.execute("ATTACH ? AS old", (source,))
    tables = "SELECT name FROM {}.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    theirs = {name for (name,) in db.execute(tables.format("old"))}
    for (name,) in db.execute(tables.format("main")).fetchall():
        if name not in theirs:
            continue
        known = {row[1] for row in db.execute(f"PRAGMA old.table_info('{name}')")}
        names = ", ".join(f'"{row[1]}"' for row in db.execute(f"PRAGMA main.table_info('{name}')") if row[1] in known)
        db.execute(f'DELETE FROM main."{name}"')
        db.execute(f'INSERT INTO main."{name}"({names}) SELECT {names} FROM old."{name}"')
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
