#!/bin/bash
# Tables and views that people query have the columns that were promised, and schema.sql says what every table, view and column is.
set -u
schema=$(cd "$(dirname "$0")/../../.." && pwd)/shim/trace/schema.sql
command -v python3 >/dev/null || { echo "skipped: no python3 here"; exit 77; }
root=${schema%/shim/trace/schema.sql}
version=$(sed -n 's/^#define VS_SCHEMA_VERSION //p' "$root/shim/trace/database.h")
grep -q "schema_version ($version)" "$schema" || { echo "schema.sql says another version than database.h, $version"; exit 1; }
grep -A1 '^.Va meta.schema_version' "$root/docs/man/vramscope.5" | grep -qx "is $version\." || { echo "vramscope.5 says another version than $version"; exit 1; }
python3 - "$schema" <<'PY'
import re, sqlite3, sys

PROMISED = """
meta: key value
process: id host boot_id pid rank local_rank world_size command start_realtime_ns
device: id process uuid name total_bytes
thread: id process tid name
event: process seq t_ns op space device context stream address size_bytes thread phase range stack status framework_bytes direct_bytes allocated_bytes reserved_bytes
allocation: process alloc_seq free_seq device space address size_bytes t_alloc_ns t_free_ns phase range stack layer owner line
phase: id name
range: id process phase parent thread step t_push_ns t_pop_ns
range_peak: range device allocated_bytes reserved_bytes t_ns
stack: id parent frame owner line
frame: id kind module offset function file line
module: id path build_id base size
sample: process t_ns device driver_used_bytes source host_rss_bytes pinned_bytes
loss: process t_ns events code why
mismatch: process seq t_ns device what ours_bytes theirs_bytes
timeline: process t_ns device allocated_bytes reserved_bytes phase
phase_peak: process device phase ranges seconds allocated_bytes reserved_bytes
live_at_peak: process device phase category size_bytes line
leak: process device phase category size_bytes line
live_at_oom: process device oom_seq phase category size_bytes line
"""
text = open(sys.argv[1]).read()
db = sqlite3.connect(":memory:")
db.executescript(text)
objects = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'")]
columns = {name: [row[1] for row in db.execute(f'PRAGMA table_xinfo("{name}")')] for name in objects}
bad = []

for line in PROMISED.split("\n"):
    name, _, promised = line.partition(":")
    lacking = [c for c in promised.split() if c not in columns.get(name, [])]
    if lacking:
        bad.append(f"{name} lacks {' '.join(lacking)}")

# What is said of an object: the comment right above its CREATE and those within.  The comment block that begins with
# "Columns that mean the same everywhere" is said of all.
lines = text.split("\n")
everywhere = re.search(r"^-- Columns that mean the same everywhere.*\n((?:--.*\n)*)", text, re.M)
everywhere = set(re.findall(r"\w+", everywhere.group(1))) if everywhere else set()
for name in objects:
    first = next(i for i, l in enumerate(lines) if re.match(rf"CREATE (TABLE|VIEW) {name}\b", l))
    last = next(i for i in range(first, len(lines)) if re.sub(r"--.*", "", lines[i]).rstrip().endswith(";"))
    above = first
    while above and lines[above - 1].startswith("--"):
        above -= 1
    comments = "\n".join(lines[above:first]) + "\n".join(l.partition("--")[2] for l in lines[first:last + 1])
    if not comments.strip():
        bad.append(f"{name}: not a word about it")
    words = set(re.findall(r"\w+", comments)) | everywhere
    alone = {m.group(1) for l in lines[first:last + 1] if (m := re.match(r"\s+(\w+)\b[^,]*,?\s*--", l))}  # a line of its own
    silent = [c for c in columns[name] if c not in words | alone]
    if silent:
        bad.append(f"{name}: nothing is said of {' '.join(silent)}")

print("\n".join(bad) or f"{len(objects)} tables and views, every column explained")
sys.exit(bool(bad))
PY
