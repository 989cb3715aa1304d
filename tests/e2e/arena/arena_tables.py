"""The tables of the arena's GPU measurements, made from figures that were made up: they say what the figures say.

    arena_tables.py FOLDER ARENA CACHING    two recordings: prog_arena gaps under the arena, and prog_caching expandable
"""
import contextlib
import io
import json
import os
import random
import sqlite3
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../gpu"))
import arena_recorded  # noqa: E402
import arena_sweep  # noqa: E402
import arena_table  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30


def expect(text, *wanted, absent=()):
    for line in wanted:
        if line not in text:
            sys.exit(f"FAIL: {line!r} is not in\n{text}")
    for line in absent:
        if line in text:
            sys.exit(f"FAIL: {line!r} is in\n{text}")


# ---- the table ----


def run(ms, live, reserved, calls=None, losses=(1.5, 1.25), arena=False, **more):
    counters = {"process_used": 700 * MIB + reserved}
    if not arena:
        counters.update(allocated_peak=live, reserved_peak=reserved)
    cycles = [{"step_ms": [99.0, 99.0], "losses": list(losses), "counters": {}},
              {"step_ms": [ms, ms + 2], "losses": list(losses), "counters": counters}]
    recording = {"calls_per_1000": calls, "losses": []}
    if arena:
        recording.update(arena_allocated_peak=live, arena_reserved_peak=reserved)
    return dict(more, begun={"process_used": 700 * MIB}, cycles=cycles, recording=recording)


def training():
    runs = {"native": run(10, 1000 * MIB, 1200 * MIB), "expandable": run(10.5, 1000 * MIB, 1030 * MIB), "async": run(12, 1000 * MIB, 1100 * MIB),
            "arena": run(9, 1000 * MIB, 1010 * MIB, 0.0, arena=True), "nocache": run(50, None, 0), "nocache-arena": run(11, 1000 * MIB, 1012 * MIB, 2.0, arena=True)}
    runs["native+recorded"] = run(11, 1000 * MIB, 1200 * MIB, 7.5)
    text = arena_table.table({"single": runs})
    expect(text, "torch native                            1000.0    1200.0  1.2000    1200.0     7.50  -         11.00 (11.00 .. 11.00)",
           "arena                                   1000.0    1010.0  1.0100    1010.0     0.00  equal", "each  equal     51.00",
           "ok    the arena's ratio 1.0100, to be at most 1.015", "ok    reserved by the arena 1010.0 MiB, to be lowest: torch expandable_segments 1030.0 MiB",
           "ok    driver calls of the arena per 1000 blocks in the last third: 0.00, to be 0", "ok    step time of arena over torch native: 0.9091",
           "ok    step time of no caching, arena over no caching: 0.2353", "ok    step time of arena over torch native, recorded: 0.8333",
           absent=("MISS", "FAIL", "DIFFER"))
    runs["arena"] = run(9, 1000 * MIB, 1010 * MIB, 0.0, losses=(1.5, 1.252), arena=True)
    expect(arena_table.table({"single": runs}), "0.00  2e-03", absent=("DIFFER",))
    runs["arena"] = run(13, 1000 * MIB, 1031 * MIB, 0.01, losses=(1.5, 1.26), arena=True, failed="ended with status 1")
    text = arena_table.table({"multi": runs})
    expect(text, "MISS  reserved by the arena 1031.0 MiB, to be lowest", "MISS  driver calls of the arena per 1000 blocks in the last third: 0.01",
           "MISS  step time of arena over torch native: 1.2727", "DIFFER", "FAIL  arena: ended with status 1", "ok    the arena's ratio 1.0310, to be at most 1.04")
    del runs["arena"]["recording"]
    expect(arena_table.table({"single": runs}), "arena                                  unknown   unknown unknown    1031.0  unknown  DIFFER")


# ---- the sweep ----


def sweep(folder):
    path, rng = os.path.join(folder, "sweep.tsv"), random.Random(1)
    with open(path, "w") as file:
        for series in ("kept", "reset"):
            for length in (1501, 1, 2001):
                for name, factor, rate in (("native", 1.25, 10), ("expandable", 1.1, 9), ("arena", 1.0, 11)):
                    allocated = (1 + length) * MIB
                    print(name, series, length, allocated, int(allocated * factor), rate, rng.choice([1.5]), sep="\t", file=file)
    expect(arena_sweep.table(path), "arena                        most reserved    1.955 GiB; reserved/allocated median 1.0000, greatest 1.0000; "
           "rate against native 1.1000; losses equal to native's 3 of 3", "median 1.2500", "     1 |    0.002    0.002   10.00 |")


# ---- recordings ----


def of_arena(path):
    found = arena_recorded.read(path)
    if (found["allocated_peak"], found["reserved_peak"]) != (48 * MIB, 48 * MIB) or found["losses"]:
        sys.exit(f"FAIL: {path}: {found}")
    both = tuple(arena_recorded.between(path, 0, 1 << 62))
    if both != (48 * MIB, 48 * MIB):
        sys.exit(f"FAIL: {path}: between: {both}")


def of_caching(path):
    """The same count the slow way, row by row."""
    rows = sqlite3.connect(path).execute("SELECT op FROM event WHERE device = 0 AND space NOT IN ('pinned', 'registered', 'managed') ORDER BY seq")
    ops = [op for op, in rows]
    blocks = [n for n, op in enumerate(ops) if op.startswith("block_")]
    third = ops[blocks[len(blocks) * 2 // 3]:]
    calls = sum(op in ("alloc", "free", "phys_create", "phys_release", "map", "unmap", "set_access") for op in third)
    wanted = 1000 * calls / (len(blocks) - len(blocks) * 2 // 3)
    found = arena_recorded.read(path)["calls_per_1000"]
    if not calls or found != wanted:
        sys.exit(f"FAIL: {path}: {found} calls per 1000 blocks, not {wanted}")


def main():
    folder = sys.argv[1]
    training()
    sweep(folder)
    of_arena(sys.argv[2])
    of_caching(sys.argv[3])
    with open(os.path.join(folder, "table.json"), "w") as file:
        json.dump({"single": {"native": run(10, 1000 * MIB, 1200 * MIB)}}, file)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        sys.argv = ["arena_table.py", "--table", os.path.join(folder, "table.json")]
        arena_table.main()
    expect(said.getvalue(), "single: 2 cycles")
    print("the tables say what the figures say")


main()
