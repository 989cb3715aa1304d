"""verify.py RUN.db < EXPECTED: holds a recording's memory events against an exact list of lines "op|space|api|size|status".

A refusal to end something is not compared: the CUDA runtime unloads its libraries in an exit handler, where the driver answers 4
(CUDA_ERROR_DEINITIALIZED). --any-order; --contains: EXPECTED is a subsequence; --loss TEXT wants a row of table loss that begins
so, else there must be none.
"""
import argparse
import sqlite3
import sys

MEMORY = ("alloc", "free", "free_failed", "phys_create", "phys_release", "va_reserve", "va_free", "map", "unmap")
OBJECTS = ("module_unload", "context_destroy")


def events(path):
    db = sqlite3.connect(path)
    rows = db.execute("SELECT op, space, ifnull(api, ''), size_bytes, status FROM event e WHERE op IN (%s) AND NOT (op = 'free_failed' "
                      "AND EXISTS (SELECT 1 FROM event b WHERE b.process = e.process AND b.seq = e.mate AND b.op IN (%s))) ORDER BY seq"
                      % (",".join("?" * len(MEMORY)), ",".join("?" * len(OBJECTS))), MEMORY + OBJECTS)
    return ["|".join(str(column) for column in row) for row in rows]


def subsequence(wanted, got):
    rest = iter(got)
    return [line for line in wanted if line not in rest]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("database")
    parser.add_argument("--any-order", action="store_true")
    parser.add_argument("--contains", action="store_true")
    parser.add_argument("--loss")
    args = parser.parse_args()
    wanted = [line.strip() for line in sys.stdin if line.strip()]
    got = events(args.database)
    if args.any_order:
        wanted, got = sorted(wanted), sorted(got)
    if args.contains:
        missing = subsequence(wanted, got)
        wanted, got = missing, []
    losses = [row[0] for row in sqlite3.connect(args.database).execute("SELECT DISTINCT code FROM loss")]
    good = got == wanted
    if not good:
        print("events differ (- wanted, + recorded):")
        import difflib
        print("\n".join(difflib.unified_diff(wanted, got, lineterm="", n=1)))
    if args.loss is not None and args.loss not in losses:
        good = False
        print(f"no loss {args.loss!r} among {losses}")
    elif args.loss is None and losses:
        good = False
        print(f"lost: {losses}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
