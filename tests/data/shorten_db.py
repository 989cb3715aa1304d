#!/usr/bin/env python3
"""shorten_db.py RECORDING NEW.xz OLD=NEW... - a recording for tests/data: paths that begin with OLD begin with NEW, nothing else changes.

For recordings of a GPU, as the pages docs/answers.md and docs/report.md show them: tests/gpu/answers.sh makes them.
"""
import lzma
import os
import shutil
import sqlite3
import sys

PATHS = ("module", "path"), ("frame", "file"), ("string", "text"), ("process", "command")


def main(recording, packed, *prefixes):
    plain = packed + ".plain"
    shutil.copyfile(recording, plain)
    db = sqlite3.connect(plain)
    for old, new in (p.split("=", 1) for p in prefixes):
        for table, column in PATHS:
            db.execute(f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?", (new, len(old) + 1, len(old), old))
    db.commit()
    db.execute("VACUUM")
    db.close()
    with open(plain, "rb") as f, lzma.open(packed, "wb", preset=9 | lzma.PRESET_EXTREME) as out:
        shutil.copyfileobj(f, out)
    os.unlink(plain)


if __name__ == "__main__":
    main(*sys.argv[1:])
