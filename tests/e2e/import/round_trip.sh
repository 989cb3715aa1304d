#!/bin/bash
# A snapshot that is imported, exported and imported again is the same in every table; a recording that is exported and imported has the
# same blocks, peaks,
# steps and out-of-memory.
. "$(dirname "$0")/../lib/command.bash"
for made in snapshots newest; do
    PYTHONPATH=$HERE PYTHONDONTWRITEBYTECODE=1 python3 "$HERE/make_$made.py" . >made || exit 1
done
for name in llama-h200 lora-h200; do
    xz -dc "$HERE/../../data/$name.db.xz" >"$name.0.db" || exit 1
done
gzip -dc "$HERE/../../../examples/llama-h200-oom.db.gz" >llama-h200-oom.0.db || exit 1
rm -f bad_*.pickle host_alone.pickle # host memory alone is nothing to export
python3 - "$BUILD/bin/vramscope" <<'END'
import glob, json, pickle, sqlite3, subprocess, sys

bad = []


def run(*command):
    p = subprocess.run([sys.argv[1], *command], capture_output=True, text=True)
    if p.returncode:
        bad.append(f"{command}: status {p.returncode}: {p.stderr}")
    return p.returncode


def tables(path):
    db = sqlite3.connect(path)
    names = [r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
    found = {n: db.execute(f"SELECT * FROM {n}").fetchall() for n in names}
    found["meta"] = [r for r in found["meta"] if r[0] != "imported"]
    found["loss"].sort()
    return found


def entries(path):  # what PyTorch's own tools go by
    snapshot = pickle.load(open(path, "rb"))
    return [[(e["action"], e["addr"], e["size"]) for e in t if e["action"] in ("segment_alloc", "segment_free")] for t in snapshot["device_traces"]]


for name in sorted(glob.glob("*.pickle")):
    n = name[:-7]
    if run("import", "-o", f"{n}.1.db", name) or run("export", "-f", "pytorch", f"{n}.1.db", "-o", f"{n}.again"):
        continue
    if run("import", "-o", f"{n}.2.db", f"{n}.again"):
        continue
    one, two = tables(f"{n}.1.db"), tables(f"{n}.2.db")
    for t in one:
        if one[t] != two[t]:
            differ = [(x, y) for x, y in zip(one[t], two[t]) if x != y]
            bad.append(f"{n}: table {t} has {len(one[t])} and {len(two[t])} rows, of which {len(differ)} differ: {str(differ[:1])[:300]}")
    if n.startswith("expandable") and entries(name) != entries(f"{n}.again"):
        bad.append(f"{n}: segments that the snapshot has not: a mapped piece is told as one")
QUERIES = ("SELECT size_bytes, request_bytes, shape, element_type, made_for, phase, t_alloc_ns, t_free_ns FROM allocation WHERE op = 'block_alloc' ORDER BY alloc_seq",
           "SELECT kind, peak_bytes, t_ns, end_bytes FROM peak WHERE device = 0 AND kind IN ('allocated', 'reserved', 'framework') ORDER BY 1",
           "SELECT phase, ranges, allocated_bytes, reserved_bytes FROM phase_peak ORDER BY 1", "SELECT step, t_ns FROM step ORDER BY 1",
           "SELECT size_bytes, line, layer, phase FROM live_at_peak WHERE category = 'framework block' ORDER BY 1, 2, 3, 4",
           "SELECT requested_bytes, free_bytes, framework_bytes, reserved_bytes, t_ns FROM oom ORDER BY seq", "SELECT start_realtime_ns, end_ns FROM process")
for name in sorted(glob.glob("*.0.db")):
    n = name[:-5]
    if run("export", "-f", "pytorch", name, "-o", f"{n}.there") or run("import", "-o", f"{n}.back.db", f"{n}.there"):
        continue
    one, two = (sqlite3.connect(p) for p in (name, f"{n}.back.db"))
    for q in QUERIES:
        x, y = one.execute(q).fetchall(), two.execute(q).fetchall()
        if x != y:
            bad.append(f"{n}: {q[:60]}: {len(x)} and {len(y)} rows: {str([p for p in zip(x, y) if p[0] != p[1]][:1])[:300]}")
    roles = "SELECT role, size_bytes, t_alloc_ns FROM allocation WHERE op = 'block_alloc' ORDER BY alloc_seq"  # others are found when a command asks
    x, y = one.execute(roles).fetchall(), two.execute(roles).fetchall()
    now = {"unused": "not told"} | {before: role for before, role in two.execute("SELECT before, role FROM role_word ORDER BY role = 'not told'") if before not in ("activation", role)}
    x = [(now.get(role, role), *rest) for role, *rest in x]  # an older file's own views have the former words
    lost = [(a, b) for a, b in zip(x, y) if a[0] and a != b]
    told = [json.loads(subprocess.run([sys.argv[1], "peak", "--by", "role", "--json", f], capture_output=True, text=True, check=True).stdout) for f in (name, f"{n}.back.db")]
    of_blocks = ("activation", "temporary", "output", "gradient", "recomputed activation", "parameter", "optimizer state")  # driver memory has others
    held = [{g["role"]: g["size_bytes"] for g in page["files"][0]["devices"][0]["by_role"] if g["role"] in of_blocks} for page in told]
    if any(g["role"] == "input" for g in told[0]["files"][0]["devices"][0]["by_role"]):
        bad.append(f"{n}: what libraries ask the driver for is called an input")
    if lost or held[0] != held[1]:
        bad.append(f"{n}: roles: {len(lost)} lost, {str(lost[:1])}; {held}")
print("\n".join(bad) if bad else "ok")
sys.exit(bool(bad))
END
