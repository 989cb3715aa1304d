"""access_check.py LOG DB - holds a recording of access.py under `run --access` against LOG."""
import collections
import json
import sqlite3
import sys

MIB = 1 << 20
log = [json.loads(line) for line in open(sys.argv[1])]
db = sqlite3.connect(sys.argv[2])
db.row_factory = sqlite3.Row
start = int(db.execute("SELECT value FROM meta WHERE key = 'start_monotonic_ns'").fetchone()[0])
blocks = collections.defaultdict(list)  # page -> (address, end, allocated, freed, alloc_seq)
uses = {r["alloc_seq"]: r for r in db.execute("SELECT * FROM block_use")}
for r in db.execute("SELECT alloc_seq, address, size_bytes, t_alloc_ns, t_free_ns FROM allocation WHERE op = 'block_alloc'"):
    end = r["address"] + r["size_bytes"]
    for page in range(r["address"] >> 21, (end - 1 >> 21) + 1):
        blocks[page].append((r["address"], end, r["t_alloc_ns"], r["t_free_ns"] if r["t_free_ns"] is not None else 1 << 62, r["alloc_seq"]))
bad = []


def block_at(address, begin, end):
    """The block that lived there at some time between the two, the one that was there longest known first."""
    found = [b for b in blocks.get(address >> 21, ()) if b[0] <= address < b[1] and b[2] <= end and b[3] >= begin]
    return max(found, key=lambda b: min(b[3], end) - max(b[2], begin)) if found else None


checked, unseen, by_op = 0, 0, collections.Counter()
for _, name, begin, end, seen in (l for l in log if l[0] == "op"):
    begin, end = begin - start, end - start
    for address, size in seen:
        block = block_at(address, begin, end)
        if block is None:
            bad.append(f"{name}: no block at {address:#x}")
            continue
        checked += 1
        use = uses.get(block[4])
        if use is None or use["uses"] == 0 or use["first_use_ns"] > end + 2000 or use["last_use_ns"] < begin - 2000:
            unseen += 1
            by_op[name] += 1
            if unseen < 6:
                print(f"  {name} {address:#x} +{size}, {begin}..{end}: block {block}, {dict(use) if use else None}")
print(f"operations of a step: {checked} storages given to kernels, {unseen} of them not seen as used" + (f" ({dict(by_op.most_common(6))})" if unseen else ""))
if checked < 500:
    bad.append("too few operations were logged")
if unseen:
    bad.append(f"{unseen} uses were not seen")


def block_of(entry):
    """The use of the block that lived at the entry's address when it was written."""
    _, _, address, when = entry
    block = block_at(address, when - start, when - start)
    return uses.get(block[4]) if block else None


def expect(name, what, got, wanted):
    print(f"  {name}: {what} {got}" + ("" if got == wanted else f", NOT {wanted}"))
    if got != wanted:
        bad.append(f"{name}: {what} {got}, not {wanted}")


for name, wanted in {"never": (0, None, None, False), "idle": (2, 1, 8, False), "late": (2, 1, 2, True), "early": (1, 6, 6, False), "twin": (2, 1, 8, False)}.items():
    r = next(block_of(l) for l in log if l[:2] == ["planted", name])
    if r is None:
        bad.append(f"{name}: not followed")
        continue
    expect(name, "uses, first and last step, freed in step 7", (r["uses"], r["first_step"], r["last_step"], r["end_step"] == 7), wanted)
    expect(name, "unseen", r["unseen"], None)
steps = collections.Counter()
for entry in (l for l in log if l[0] == "held"):
    r, label = block_of(entry), entry[1]
    steps[(label.split()[0], r["steps"] if r else None, r["last_step"] if r else None)] += 1
print("held to the end (what, steps with uses, last step):", dict(steps))
if any(last != 8 or n is None or n < 8 for (_, n, last) in steps):
    bad.append("a parameter or a state is not used in each of the 8 steps")
for entry in (l for l in log if l[0] == "graph"):
    r, label = block_of(entry), entry[1]
    if label == "captured only":
        expect(label, "uses", r["uses"], 0)
    elif r["steps"] < 9 or not r["kinds"] & 2:
        bad.append(f"graph, {label}: {r['steps']} steps, kinds {r['kinds']}")
print("graph:", sum(l[0] == "graph" for l in log), "blocks looked at")
kernels = db.execute("SELECT count(DISTINCT first_by), count(DISTINCT last_by) FROM block_use").fetchone()
followed = db.execute("SELECT count(*), sum(uses), sum(unseen IS NOT NULL) FROM block_use").fetchone()
events = db.execute("SELECT count(*) FROM ev").fetchone()[0]
print(f"blocks followed {followed[0]}, uses {followed[1]}, not known to be idle {followed[2]}; names {tuple(kernels)}; {events} events")
parameters = collections.Counter(db.execute("SELECT role FROM block_role WHERE alloc_seq = ?", (block_of(l)["alloc_seq"],)).fetchone()[0] for l in log if l[0] == "held" and l[1].startswith("parameter"))
states = collections.Counter(db.execute("SELECT role FROM block_role WHERE alloc_seq = ?", (block_of(l)["alloc_seq"],)).fetchone()[0] for l in log if l[0] == "held" and l[1].startswith("exp"))
print("parameters are called", dict(parameters), "states", dict(states))
if set(parameters) != {"parameter"} or set(states) != {"optimizer state"}:
    bad.append("a parameter or a state has another role")
for line in bad[:20]:
    print("FAIL:", line)
sys.exit(1 if bad else 0)
