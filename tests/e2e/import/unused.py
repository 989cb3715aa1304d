
"""unused.py NAME EXPECTED < peak --json - what is reserved and not allocated of the first device is as EXPECTED, an allocator's own word, has it."""
import json
import sys

name, expected = sys.argv[1], json.loads(open(sys.argv[2]).read())
device = json.load(sys.stdin)["files"][0]["devices"][0]
u = device["out_of_memory"]["not_allocated"] if "usable" in expected else device["not_allocated"]
rows = {}
for r in u["rows"]:
    rows.setdefault(r["kind"], []).append(r)
size = lambda kind: sum(r["size_bytes"] for r in rows.get(kind, []))
whole = lambda kind: [size(kind), sum(r["pieces"] for r in rows.get(kind, [])), max((r["largest_bytes"] for r in rows.get(kind, [])), default=0)]
got = {"cached": whole("cached"), "waiting": whole("waiting"), "rounding": size("rounding"), "allocated": u["allocated_bytes"],
       "pools": sorted(r["size_bytes"] for r in rows.get("private pool", [])), "reserved": u["reserved_bytes"]}
if "usable" in expected:
    got["usable"] = sum(r["usable_bytes"] for k in ("cached", "private pool") for r in rows.get(k, []))
assert sum(r["size_bytes"] for r in u["rows"]) == u["not_allocated_bytes"] == u["reserved_bytes"] - u["allocated_bytes"], (name, u)
assert got == expected, f"{name}:\n  got      {got}\n  expected {expected}"
