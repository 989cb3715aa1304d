#!/bin/bash
# report and peak of known runs, compared with the golden pages; --json parses and agrees; sums are exact.
#
#   UPDATE=1 cli_report.sh writes the golden pages anew: read the diff before committing it.
set -u
BUILD=${BUILD:?the build directory}
SRC=$(cd "$(dirname "$0")/../.." && pwd)
V=$BUILD/bin/vramscope
GOLDEN=$SRC/tests/data/golden
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
cd "$D" || exit 1
failures=0
make_db() { python3 "$SRC/tests/data/make_db.py" "$SRC/shim/trace/schema.sql" "$@" || exit 1; }

golden() {
    local name=$1
    shift
    "$@" >"$name" 2>&1
    [ -n "${UPDATE:-}" ] && cp "$name" "$GOLDEN/$name"
    if ! diff -u "$GOLDEN/$name" "$name"; then
        echo "FAILED: $* differs from tests/data/golden/$name"
        failures=$((failures + 1))
    fi
}

make_db train.db --devices 2
make_db oom.db --kind oom
make_db killed.db --kind killed
make_db thinned.db --kind thinned
make_db empty.db --kind empty
mkdir ranks && for r in 0 1 2; do make_db ranks/run-r$r.db --rank $r; done

golden report_train.txt "$V" report train.db
golden report_train_bytes.txt "$V" report --bytes train.db
golden report_oom.txt "$V" report oom.db
# ranks that wrote files of the same name are told apart
mkdir one two && cp train.db one/run.db && cp oom.db two/run.db
[ "$("$V" report one two killed.db | awk 'NR > 1 { print $1 }' | sort -u | tr '\n' ' ')" = "killed.db one/run.db two/run.db " ] ||
    { echo "FAILED: equal names are not told apart" && failures=$((failures + 1)); }
"$V" plot one two | grep -q "^two/run.db, device 0" || { echo "FAILED: panels of equal names" && failures=$((failures + 1)); }
# the same request, but small enough for what was reserved and unused; then one that no such device could hold
python3 - <<'PY'
import shutil, sqlite3
for name, size in (("fragmented.db", 2 << 30), ("hopeless.db", 200 << 30)):
    shutil.copy("oom.db", name)
    db = sqlite3.connect(name)
    db.execute("UPDATE ev SET size = ? WHERE op = 22", (size // 512,))
    db.commit()
PY
has() { # TEXT COMMAND...
    local text=$1
    shift
    "$@" | grep -qF -- "$text" || { echo "FAILED: $* does not say: $text" && failures=$((failures + 1)); }
}
has "fragmentation: enough was unused" "$V" report fragmented.db
has "it would have fitted beside what was reserved" "$V" report oom.db
has "could never have held it" "$V" report hopeless.db
"$V" report oom.db | grep -Eq "fragmentation|never" && echo "FAILED: a cause that was none" && failures=$((failures + 1))
golden report_killed.txt "$V" report killed.db
golden report_thinned.txt "$V" report thinned.db
golden report_empty.txt "$V" report empty.db
golden report_ranks.txt "$V" report ranks
golden peak_train.txt "$V" peak --top 4 --device 0 train.db
golden peak_phase.txt "$V" peak --by=phase --bytes train.db
golden plot_train.txt env COLUMNS=90 "$V" plot train.db
golden report_train.json "$V" report --json train.db
"$V" report --json train.db oom.db >report.json && "$V" peak --json --top 0 train.db >peak.json || failures=$((failures + 1))
python3 - <<'PY' || failures=$((failures + 1))
import json, sqlite3
report, peak = json.load(open("report.json")), json.load(open("peak.json"))
assert [f["oom_count"] for f in report["files"]] == [0, 1]
for d in peak["files"][0]["devices"]:
    true = sqlite3.connect("train.db").execute("SELECT peak_bytes FROM peak WHERE kind='allocated' AND device=?", (d["device"],)).fetchone()[0]
    assert d["allocated_bytes"] == true == d["held_bytes"]
    for by in ("phase", "category", "library", "stack"):
        assert sum(r["size_bytes"] for r in d["by_" + by]) == true, by
    assert any(r["frames"] for r in d["by_stack"])
for d in report["files"][0]["devices"]:
    r = d["residual"]
    assert r["driver_used_bytes"] == r["reserved_bytes"] + r["context_and_modules_at_first_sample_bytes"] + r["unexplained_bytes"]
    assert d["peak"]["allocated_bytes"] == sum(h["size_bytes"] for h in d["peak"]["held"])
    assert r["modules_later_bytes"] is None
PY
[ $failures = 0 ] && echo "reports are as they should be" || exit 1
