#!/bin/bash
# Directories of a job: every command says which rank has no file, and a job of 1000 files is shown in seconds, in time that grows as the files do.
set -u
: "${BUILD:?the build directory}"
SRC=$(cd "$(dirname "$0")/../../.." && pwd)
V=$BUILD/bin/vramscope
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
cd "$D" || exit 1
failures=0
no() { echo "FAILED: $*" && failures=$((failures + 1)); }
make_db() { python3 "$SRC/tests/data/make_db.py" "$SRC/shim/trace/schema.sql" "$@" || exit 1; }

# ---- a rank that is missing ----

mkdir lack whole
for rank in 0 1 3; do make_db lack/r$rank.db --rank $rank --world 4 --gpu $rank --extra $((rank * 8)); done
cp lack/*.db whole && make_db whole/r2.db --rank 2 --world 4 --gpu 2
for command in peak waste plot "view -o out.html"; do
    # shellcheck disable=SC2086
    "$V" $command lack >out 2>err
    status=$?
    [ $status = 3 ] && grep -qx "vramscope: of the job's 4 ranks 1 has no file, and not shown: 2" err || no "$command of three ranks of four: status $status, $(cat err)"
    # shellcheck disable=SC2086
    "$V" $command whole >out 2>err || no "$command of a whole job: status $?, $(cat err)"
    [ ! -s err ] || no "$command of a whole job: $(cat err)"
    # shellcheck disable=SC2086
    "$V" $command lack/r0.db lack/r1.db >out 2>err || no "$command of files that were named: status $?, $(cat err)"
done
"$V" report lack >out && no "report of three ranks of four says that it is whole"
grep -qx 'MISSING: no file of rank 2 (1 of 4)' out || no "report: $(head -3 out)"
"$V" peak whole --at=nonsense >out 2>err
status=$?
[ $status = 2 ] && [ "$(wc -l <err)" = 1 ] || no "a bad option: status $status, $(cat err)"

# ---- a job of 1000 files ----

python3 - "$SRC" <<'PY' || exit 1
"""1000 ranks of 125 hosts: eight databases, copied, and each told its place."""
import os, shutil, sqlite3, subprocess, sys
src = sys.argv[1]
os.mkdir("many")
for gpu in range(8):
    subprocess.run([sys.executable, src + "/tests/data/make_db.py", src + "/shim/trace/schema.sql", f"base{gpu}.db", "--rank", "0", "--world", "1000",
                    "--extra", str(8 * gpu)], check=True)
for rank in range(1000):
    path = f"many/rank{rank:04d}.db"
    shutil.copyfile(f"base{rank % 8}.db", path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("UPDATE process SET rank = ?, local_rank = ?, host = ?, pid = ?", (rank, rank % 8, f"gpu-{rank // 8}", 4000 + rank))
    db.execute("UPDATE device SET uuid = ?", (f"GPU-{rank:08x}",))
    db.commit()
    db.close()
PY
TIMEFORMAT=%U
mkdir part && cp many/rank00[0-9]?.db part
took() { { time "$V" report "$1" >"$1.txt" 2>/dev/null; } 2>&1; }
all=$(took many) tenth=$(took part)
grep -q '^job of 1000 ranks on 125 hosts' many.txt || no "1000 files: $(head -3 many.txt)"
[ "$(grep -c ' complete' many.txt)" = 1000 ] || no "1000 files: $(grep -c ' complete' many.txt) rows"
grep -q '^MISSING' many.txt && no "1000 files: $(grep MISSING many.txt)"
awk "BEGIN { exit !($all <= 5) }" || no "1000 files took $all s of one core"
awk "BEGIN { exit !($all <= 16 * $tenth + 0.5) }" || no "100 files took $tenth s, 1000 files $all s"

[ $failures = 0 ] && echo "missing ranks are said by every command; 1000 files took $all s of one core, 100 of them $tenth s" || exit 1
