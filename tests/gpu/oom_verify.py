"""oom_verify.py TREE RUN.db FACTS.json MODE - the recorded out-of-memory against what oom_program.py noted."""
import json
import sqlite3
import subprocess
import sys

import verify
from verify import check, equal, one

def counter(db, name):
    return one(db, "SELECT ifnull(sum(value), 0) FROM counter WHERE name = ?", name)


def same_blocks(db, seq, facts):
    ours = set(db.execute("SELECT address, size_bytes FROM live_at_oom WHERE oom_seq = ? AND category = 'framework block'", (seq,)))
    theirs = {tuple(b) for b in facts["blocks"]}
    check(ours == theirs, f"live set: {len(ours)} blocks, {sum(s for _, s in ours)} bytes; the snapshot has {len(theirs)}, "
          f"{sum(s for _, s in theirs)}; only ours {len(ours - theirs)}, only theirs {len(theirs - ours)}")


def report_of(tree, path):
    out = subprocess.run([tree + "/bin/vramscope", "report", "--json", path], capture_output=True, text=True, check=True).stdout
    return json.loads(out)["files"][0].get("out_of_memory")


def framework(db, row, facts, oom, mode):
    equal(row["op"], 22, "the framework's own report")
    equal(row["framework_bytes"], facts["allocated"], "allocated")
    equal(row["managed_reserved_bytes"], facts["reserved"], "reserved")
    check(0 <= row["requested_bytes"] - facts["requested"] < 2 << 20,
          f"asked for: database {row['requested_bytes']}, program {facts['requested']} before rounding")
    same_blocks(db, row["seq"], facts)
    unused = [size for _, size in facts["inactive"]]
    equal(oom["framework_unused_bytes"], facts["reserved"] - facts["allocated"], "unused")
    if mode != "expandable":  # its snapshot lists what is not mapped, too
        equal(oom["framework_largest_unused_bytes"], max(unused, default=0), "largest unused piece")
    if facts["how"] == "limit":
        equal(row["refusals"], 0, "refusals of the driver")
        equal(oom["cause"], "driver not asked", "cause")
    else:
        check(row["refusals"] > 0, f"{row['refusals']} refusals of the driver before it")
        check(row["free_bytes"] is not None and row["free_bytes"] < 3 << 30, f"the driver had {row['free_bytes']} bytes free")
        causes = ("larger than the device",) if row["requested_bytes"] > facts["device"] else ("short", "fragmented")
        check(oom["cause"] in causes, f"cause: {oom['cause']}, one of {causes}; short by {oom['short_by_bytes']}")


def malloc_async(db, row, facts):
    check(row["op"] == 1, "the driver's refusal reached the program")
    held = one(db, "SELECT ifnull(sum(size_bytes), 0) FROM live_at_oom WHERE oom_seq = ? AND category = 'direct pool'", row["seq"])
    equal(held, facts["allocated"], "live set, bytes out of the pool")


def fitted(db, how, mode):
    """The allocator found room in the end; expandable segments join what they have cached, and then the driver refuses nothing."""
    equal(one(db, "SELECT count(*) FROM oom"), 0, "out-of-memory that reached the program")
    refused, absorbed = counter(db, "driver_out_of_memory"), counter(db, "driver_out_of_memory_absorbed")
    check(refused == absorbed, f"{refused} refusals, {absorbed} of them absorbed")
    joined = how == "cached" and mode == "expandable"
    check((refused == 0) == joined, f"{refused} refusals, {'none' if joined else 'at least one'} expected")


def main():
    tree, path, facts_path, mode = sys.argv[1:]
    facts = json.load(open(facts_path))
    db = sqlite3.connect(path)
    db.row_factory = lambda c, r: tuple(r)
    if facts["how"] in ("absorbed", "cached"):
        fitted(db, facts["how"], mode)
        return
    cursor = db.execute("SELECT * FROM oom WHERE role & 2 AND device = 0")
    row = dict(zip([c[0] for c in cursor.description], cursor.fetchone()))
    equal(one(db, "SELECT sum(size_bytes) FROM live_at_oom WHERE oom_seq = ?", row["seq"]),
          row["framework_bytes"] + row["direct_bytes"], "live set, against the totals")
    if mode == "async":
        malloc_async(db, row, facts)
    else:
        equal(counter(db, "out_of_memory"), facts["ooms"], "how often")
        equal(counter(db, "driver_out_of_memory") - counter(db, "driver_out_of_memory_absorbed"),
              counter(db, "driver_out_of_memory_reported"), "refusals that neither were absorbed nor led to it: none")
        framework(db, row, facts, report_of(tree, path), mode)


main()
sys.exit(verify.FAILED > 0)
