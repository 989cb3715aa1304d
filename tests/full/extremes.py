#!/usr/bin/env python3
"""extremes.py COUNT [SEED] - commands on a recording whose numbers are impossible: whatever they are, an answer or one line, and none that is not
true (out of memory, of a small recording).

A column of integers of a real recording gets, in one row, in some or in all, a number at the edge of what some type holds.  COUNT 0: every column
with every number, in all rows, and every command; otherwise, after what was once wrong, COUNT of them.
"""
import lzma
import os
import pathlib
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("BUILD") or ROOT / "build/release")
VRAMSCOPE = str(BUILD / "bin/vramscope")
RECORDING = ROOT / "tests/data/llama-h200.db.xz"
LIMIT_S, LIMIT_BYTES, STATUSES = 10, 1 << 30, (0, 1, 2, 3)
VALUES = (0, -1, (1 << 31) - 1, 1 << 31, (1 << 32) - 6, (1 << 32) - 1, (1 << 63) - 1)
COMMANDS = (["report"], ["report", "--json"], ["peak"], ["peak", "--by=stack"], ["waste"], ["plot"], ["view"], ["diff", "good.db"], ["check", "--max-reserved=1TiB"], ["whatif"],
            *(["export", "--format=" + f] for f in ("perfetto", "pytorch", "folded", "pprof", "csv")))


ONCE_WRONG = (("stack", "id", (1 << 32) - 6, "1", [["whatif"]]),)


def limited():
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))


def columns(connection):
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")]
    rows = {t: connection.execute(f'SELECT count(*) FROM "{t}"').fetchone()[0] for t in tables}
    return [(t, name) for t in tables if rows[t] for _, name, kind, *_ in connection.execute(f'PRAGMA table_info("{t}")') if "INT" in kind.upper()]


def change(path, table, column, value, rows):
    """ROWS: which; an id that would be there twice is given to one row alone."""
    connection = sqlite3.connect(path)
    for where in (rows, "rowid = (SELECT max(rowid) FROM \"%s\")" % table):
        try:
            with connection:
                connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {where}', (value,))
            break
        except sqlite3.Error:  # without rowid, or no two may be the same
            continue
    connection.close()


def ran(directory, command):
    """None, or what was wrong."""
    begin = time.monotonic()
    try:
        done = subprocess.run([VRAMSCOPE, command[0], *command[1:], "run.db"], cwd=directory, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=12 * LIMIT_S, preexec_fn=limited)
    except subprocess.TimeoutExpired:
        return f"had not ended after {time.monotonic() - begin:.0f} s"
    errors = done.stderr.decode(errors="replace")
    if done.returncode not in STATUSES:
        return f"ended with {done.returncode}: {errors[-300:]}"
    if "out of memory" in errors and "of memory in" not in errors:
        return "says: " + errors.strip()
    return f"said {errors.count(chr(10))} lines: {errors[:300]}" if done.returncode == 2 and errors.count("\n") != 1 else None


def tries(count, seed, connection):
    chance, all_columns = random.Random(seed), columns(connection)
    if not count:
        for table, column in all_columns:
            for value in VALUES:
                yield table, column, value, "1", COMMANDS
        return
    yield from ONCE_WRONG
    for _ in range(count):
        table, column = chance.choice(all_columns)
        rows = chance.choice(("1", "rowid % 7 = 3", f"rowid = {chance.randrange(1, 200)}"))
        yield table, column, chance.choice(VALUES), rows, [chance.choice(COMMANDS)]


def main():
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    failed = done = 0
    with tempfile.TemporaryDirectory(prefix="vramscope-extremes.") as directory:
        good = f"{directory}/good.db"
        with lzma.open(RECORDING) as packed, open(good, "wb") as f:
            shutil.copyfileobj(packed, f)
        for table, column, value, rows, commands in tries(count, seed, sqlite3.connect(good)):
            shutil.copyfile(good, f"{directory}/run.db")
            change(f"{directory}/run.db", table, column, value, rows)
            for command in commands:
                bad = ran(directory, command)
                done += 1
                failed += bad is not None
                if bad:
                    print(f"{table}.{column} = {value} where {rows}: {' '.join(command)}: {bad}", flush=True)
    print(f"{done} commands (seed {seed}), {failed} failed")
    return failed > 0


sys.exit(main())
