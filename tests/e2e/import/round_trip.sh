#!/bin/bash
# A snapshot that is imported, exported and imported again is the same recording: every table is equal, but for the file that it is of.
set -u
BUILD=${BUILD:?the build directory}
HERE=$(cd "$(dirname "$0")" && pwd)
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
cd "$D" || exit 1
for made in snapshots newest; do
    PYTHONPATH=$HERE PYTHONDONTWRITEBYTECODE=1 python3 "$HERE/make_$made.py" . >made || exit 1
done
rm -f bad_*.pickle host_alone.pickle # host memory alone is nothing to export
python3 - "$BUILD/bin/vramscope" <<'END'
import glob, pickle, sqlite3, subprocess, sys

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
print("\n".join(bad) if bad else "ok")
sys.exit(bool(bad))
END
