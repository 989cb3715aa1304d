#!/bin/bash
# Of a job's directory every command says which rank has no file, and many files are one page: of 1000, in tests/run.sh full, in time that
# grows as they do.
. "$(dirname "$0")/../lib/command.bash"

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
"$V" report --all lack >out && no "report of three ranks of four says that it is whole"
grep -qx 'MISSING: no file of rank 2 (1 of 4)' out || no "report: $(head -3 out)"
"$V" peak whole --at=nonsense >out 2>err
status=$?
[ $status = 2 ] && [ "$(wc -l <err)" = 1 ] || no "a bad option: status $status, $(cat err)"

# ---- many ranks on one page ----

mkdir twelve
for rank in {0..11}; do make_db twelve/r$rank.db --rank $rank --world 12 --gpu $rank --extra $((rank * 8)); done
COLUMNS=80 "$V" report twelve >out || no "report of twelve ranks: $(tail -3 out)"
[ "$(wc -l <out)" -le 40 ] && grep -qx '  7 devices more: --all shows all' out && grep -qE '^ +11  ' out && ! grep -qE '^ +0  ' out ||
    no "the page of twelve ranks is not the five highest on 40 lines: $(cat out)"
"$V" report --all twelve >out
[ "$(grep -cE '^ +([0-9]|1[01])  ' out)" -ge 12 ] && grep -q '^  phase ' out || no "report --all of twelve ranks: $(cat out)"

# ---- why a rank is higher ----

mkdir why
for rank in 0 1 2 3; do make_db why/r$rank.db --rank $rank --world 4 --gpu $((rank / 3)); done
page() { "$V" report --all why 2>&1 | tr -s '\n ' ' '; }
page >out
grep -q 'more than the lowest\|of communication\|gathered by\|beyond reserved' out && no "equal ranks differ: $(cat out)"
grep -qF 'on the GPU of rank 0 (gpu-7, device 0) ranks 1-2 took memory too: 21.31 GiB at their peaks, 13.92 GiB of it allocated; its own peak is 10.66 GiB' out ||
    no "a GPU of three ranks: $(grep -o 'on the GPU.*' out)"
grep -q 'on the GPU of rank 3' out && no "a GPU of one rank is shared"
# runs one after the other share nothing
mkdir apart
make_db apart/a.db && make_db apart/b.db --extra 8
"$V" report --all apart >out 2>&1
tr -s '\n ' ' ' <out | grep -q '1 other process took memory too' || no "two processes at once: $(cat out)"
make_db apart/c.db --extra 16 --start 5 # takes the GPU when a and b have ended
"$V" report --all apart >out 2>&1
tr -s '\n ' ' ' <out | grep -q '1 other process took memory too' && ! grep -q '2 other' out || no "a third process later: $(cat out)"
rm apart/b.db
"$V" report --all apart >out 2>&1
grep -q 'took memory too' out && no "runs one after the other: $(cat out)"
make_db why/r2.db.new --rank 2 --world 4 --extra 64 && mv why/r2.db.new why/r2.db
page >out
grep -qF '64.00 MiB more than the lowest, rank 0: most of all output, +64.00 MiB' out || no "what it is for: $(cat out)"
grep -q 'of communication\|gathered by' out && no "neither communication nor gathers are there: $(cat out)"
# its direct allocation is NCCL's, and one of its blocks was made by a gather
sqlite3 why/r2.db "INSERT INTO string VALUES(9000, 'libnccl.so.2');
    UPDATE stack SET owner = 9000 WHERE id IN (SELECT stack FROM live_at_peak WHERE category = 'direct');
    INSERT INTO frame(id, kind, function, file, line) VALUES(9000, 2, 'foreach_all_gather', '/x/site-packages/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py', 3);
    UPDATE stack SET frame = 9000 WHERE id IN (SELECT stack FROM live_at_peak WHERE phase = 'forward' AND category = 'framework block')" || exit 1
page >out
grep -qF "of communication (NCCL's own memory and buffers) it holds 33.00 MiB more" out || no "NCCL's memory: $(cat out)"
grep -qF "of parameters gathered by FSDP or ZeRO it holds 768.0 MiB more" out || no "gathered parameters: $(cat out)"
# the driver has more for rank 1: at first nobody knows why, then it is the context
sqlite3 why/r1.db "UPDATE sample SET driver_used_bytes = driver_used_bytes + (200 << 20)" || exit 1
page >out
grep -qF 'beyond reserved the driver has 200.0 MiB more for rank 1 than for rank 0: most of all of unknown cause, +200.0 MiB' out || no "the residual: $(cat out)"
sqlite3 why/r1.db "UPDATE ev SET size = size + (150 << 11) WHERE op = 16" || exit 1
page >out
grep -qF 'most of all context, +150.0 MiB' out || no "the residual's part: $(cat out)"
"$V" report --json why >why.json || no "report --json: status $?"
python3 - <<'PY' || failures=$((failures + 1))
import json
(job,) = json.load(open("why.json"))["jobs"]
over, (gpu,) = job["max_over_min"], job["shared_gpus"]
assert (over["communication_bytes"] >> 20, over["gathered_bytes"] >> 20) == (33, 768), over
assert job["residual_over_min"] == {"part": "context", "part_bytes": 150 << 20}, job["residual_over_min"]
assert gpu["rank"] == 0 and gpu["others"] == ["why/r1.db", "why/r2.db"] and not gpu["at_least"], gpu
PY

# ---- a job of many files: 1000 in tests/run.sh full, where its time is looked at ----

ranks=40
! in_full || ranks=1000
python3 - "$SRC" $ranks <<'PY' || exit 1
"""RANKS of eighths as many hosts: eight databases, copied, and each told its place."""
import os, shutil, sqlite3, subprocess, sys
src, ranks = sys.argv[1], int(sys.argv[2])
os.mkdir("many")
for gpu in range(8):
    subprocess.run([sys.executable, src + "/tests/data/make_db.py", src + "/shim/trace/schema.sql", f"base{gpu}.db", "--rank", "0", "--world", str(ranks),
                    "--extra", str(8 * gpu)], check=True)
for rank in range(ranks):
    path = f"many/rank{rank:04d}.db"
    shutil.copyfile(f"base{rank % 8}.db", path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA synchronous = OFF")
    db.execute("UPDATE process SET rank = ?, local_rank = ?, host = ?, pid = ?", (rank, rank % 8, f"gpu-{rank // 8}", 4000 + rank))
    db.execute("UPDATE device SET uuid = ?", (f"GPU-{rank:08x}",))
    db.commit()
    db.close()
PY
"$V" report --all many >many.txt 2>/dev/null
grep -q "^job of $ranks ranks on $((ranks / 8)) hosts" many.txt || no "$ranks files: $(head -3 many.txt)"
[ "$(grep -c ' complete' many.txt)" = $ranks ] || no "$ranks files: $(grep -c ' complete' many.txt) rows"
grep -q '^MISSING' many.txt && no "$ranks files: $(grep MISSING many.txt)"
if in_full; then
    TIMEFORMAT=%U
    mkdir part && cp many/rank00[0-9]?.db part
    took() { { time "$V" report --all "$1" >"$1.txt" 2>/dev/null; } 2>&1; }
    for _ in 1 2 3; do # other work on the machine makes each of them longer
        tenth=$(took part) all=$(took many)
        awk "BEGIN { exit !($all <= 5 && $all <= 16 * $tenth + 0.5) }" && break
    done
    awk "BEGIN { exit !($all <= 5) }" || no "1000 files took $all s of one core"
    awk "BEGIN { exit !($all <= 16 * $tenth + 0.5) }" || no "100 files took $tenth s, 1000 files $all s"
    echo "1000 files took $all s of one core, 100 of them $tenth s"
fi

[ $failures = 0 ] && echo "missing ranks are said by every command; $ranks files are one page" || exit 1
