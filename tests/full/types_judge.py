"""types_judge.py NAME BASE.db LOG CHANGED.db VRAMSCOPE [PLAIN.db] - gives the CPU's blocks of BASE.db the types and shapes of LOG, and holds
`whatif --edit=types=bf16` of it against the peak of CHANGED.db.

PLAIN.db: the same program without the log, whose call stacks are its own; its blocks get the types of BASE.db's, in their order.
"""
import bisect
import difflib
import json
import sqlite3
import subprocess
import sys

name, base, log, changed, vramscope = sys.argv[1:6]
plain = sys.argv[6] if len(sys.argv) > 6 else None


def peak(path):
    with sqlite3.connect(path) as db:
        return db.execute("SELECT peak_bytes FROM peak WHERE device = 0 AND kind = 'framework'").fetchone()[0]


def add_types(db, rows):
    """A tensor's storage is the last block that was born at its address before the operation that gave it had ended."""
    start, = db.execute("SELECT start_realtime_ns FROM process").fetchone()
    types = {n: i for i, n in db.execute("SELECT id, name FROM element_type")}
    births, known = {}, {}
    for seq, t, address in db.execute("SELECT seq, t_ns, address FROM event WHERE op = 'block_alloc' ORDER BY seq"):
        births.setdefault(address, []).append((t, seq))
    for address, t, dtype, shape, size in rows:
        of = births.get(address, [])
        i = bisect.bisect(of, (t - start, 1 << 62)) - 1
        if i >= 0:
            known.setdefault(of[i][1], (types[dtype], size, str(shape).replace(" ", "")))
    kinds = {r[0]: r[1:] for r in db.execute("SELECT * FROM kind")}
    tensors, made = {}, {}
    for seq, asked in known.items():
        if asked not in tensors:
            tensors[asked] = len(tensors) + 1
            db.execute("INSERT INTO tensor VALUES (?, 1, ?, ?, ?)", (tensors[asked], *asked))
        kind, = db.execute("SELECT kind FROM ev WHERE seq = ?", (seq,)).fetchone()
        if (kind, asked) not in made:
            made[kind, asked] = max(kinds) + len(made) + 1
            db.execute("INSERT INTO kind VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (made[kind, asked], *kinds[kind][:-1], tensors[asked]))
        db.execute("UPDATE ev SET kind = ? WHERE seq = ?", (made[kind, asked], seq))
    all_bytes, typed = db.execute("SELECT sum(size_bytes), sum(iif(element_type IS NULL, 0, size_bytes)) FROM allocation WHERE op = 'block_alloc'").fetchone()
    return 100 * typed / all_bytes


def blocks_of(db):
    return db.execute("SELECT seq, size_bytes FROM event WHERE op = 'block_alloc' ORDER BY seq").fetchall()


def copy_types(db, to):
    """Of two runs of a program the blocks are the same; where one has some more they are laid beside each other by size."""
    here, there = blocks_of(db), blocks_of(to)
    sizes = difflib.SequenceMatcher(None, [b[1] for b in here], [b[1] for b in there], autojunk=False)
    tensors = dict(db.execute("SELECT e.seq, k.tensor FROM ev e JOIN kind k ON k.id = e.kind WHERE e.op = 20 AND k.tensor IS NOT NULL"))
    to.executemany("INSERT OR IGNORE INTO tensor VALUES (?, ?, ?, ?, ?)", db.execute("SELECT * FROM tensor"))
    kinds, made = {r[0]: r[1:] for r in to.execute("SELECT * FROM kind")}, {}
    for i, j, n in sizes.get_matching_blocks():
        for (seq, _), (other, _) in zip(here[i : i + n], there[j : j + n]):
            if seq not in tensors:
                continue
            kind, = to.execute("SELECT kind FROM ev WHERE seq = ?", (other,)).fetchone()
            key = kind, tensors[seq]
            if key not in made:
                made[key] = max(kinds) + len(made) + 1
                to.execute("INSERT INTO kind VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (made[key], *kinds[kind][:-1], tensors[seq]))
            to.execute("UPDATE ev SET kind = ? WHERE seq = ?", (made[key], other))


before = peak(base)
with open(log) as f, sqlite3.connect(base) as db:
    share = add_types(db, json.load(f))
    if plain:
        before = peak(plain)
        with sqlite3.connect(plain) as to:
            copy_types(db, to)
said = subprocess.run([vramscope, "whatif", "--json", "--policy=torch-native", "--edit=types=bf16", plain or base], capture_output=True, text=True)
if said.returncode:
    print(f"{name}: {share:.0f} % of the bytes typed: {said.stderr.strip()}")
    raise SystemExit("element types are not known" not in said.stderr or share >= 90)
edit = next(e for e in json.loads(said.stdout)["devices"][0]["edits"] if e["edit"])
if edit["refused"]:
    print(f"{name}: {share:.0f} % of the bytes typed: {edit['refused']}")
    raise SystemExit(share >= 90)
row = edit["policies"][0]
low, high, after = row["allocated_low_bytes"], row["allocated_high_bytes"], peak(changed)
mib = 1 << 20
print(f"{name}: {edit['edit']}: {share:.0f} % of the bytes typed; {before / mib:.1f} MiB, in bf16 {low / mib:.1f} to {high / mib:.1f} said, {after / mib:.1f} measured; "
      f"{100 * (high - low) / high:.0f} % wide")
raise SystemExit(not low <= after <= high)
