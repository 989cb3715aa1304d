#!/bin/bash
# Processes know their rank from whatever launched them, %r names their files, and report DIR shows all, killed and missing ones, too.
. "$(dirname "$0")/../lib/lib.bash"
# shellcheck disable=SC2154 # from lib.bash
job=$dir/job
mkdir "$job"

# rank NAME=value...: one process with these variables, and no others of a launcher
rank() {
    env -u RANK -u LOCAL_RANK -u WORLD_SIZE -u SLURM_PROCID -u SLURM_JOB_ID -u PMI_RANK -u OMPI_COMM_WORLD_RANK \
        LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$job/run-%r.db" VRAMSCOPE_JOURNAL_DIR="$job" "$@" >"$dir/out" 2>&1
}
of() { sqlite3 -batch "$job/run-$1.db" "SELECT rank || ' ' || ifnull(local_rank, '-') || ' ' || ifnull(world_size, '-') FROM process"; }

rank RANK=0 LOCAL_RANK=0 WORLD_SIZE=5 "$tests/prog_idle" || fail "torchrun's: $(cat "$dir/out")"
rank OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_SIZE=5 SLURM_PROCID=0 "$tests/prog_idle" || fail "Open MPI's"
rank SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_PROCID=2 SLURM_LOCALID=0 SLURM_STEP_NUM_TASKS=5 "$tests/prog_idle" || fail "SLURM's"
rank PMI_RANK=4 SIMCUDA_LATENCY_US=50 PMI_SIZE=5 MPI_LOCALRANKID=2 "$tests/prog_threads" "$dir/counts" 2>/dev/null &
pid=$!
for _ in {1..3000}; do [ -s "$job/run-4.db" ] && [ "$(of 4 2>/dev/null)" ] && break || sleep 0.01; done
pkill -KILL -P $pid
wait $pid 2>/dev/null
rank SLURM_JOB_ID=9 SLURM_PROCID=0 SLURM_NTASKS=5 "$tests/prog_idle" || fail "the batch script's"
[ "$(of 0)" = "0 0 5" ] && [ "$(of 1)" = "1 1 5" ] && [ "$(of 2)" = "2 0 5" ] || fail "ranks: $(of 0), $(of 1), $(of 2)"
[ -z "$(sqlite3 "$job/run-none.db" 'SELECT rank FROM process')" ] || fail "a batch script has a rank"

"$V" report --all "$job" >"$dir/report" 2>&1
[ $? = 3 ] || fail "a job that lacks a rank: $(cat "$dir/report")"
for text in "these files are of 2 jobs" "job of 5 ranks on 1 host" "MISSING: no file of rank 3 (1 of 5)" "NOTE: rank 4: no clean end" \
    "highest: rank" "1 file without a rank"; do
    grep -qF "$text" "$dir/report" || fail "report DIR does not say '$text': $(cat "$dir/report")"
done
[ "$(of 4)" = "4 2 5" ] || fail "the killed one's rank: $(of 4)"
"$V" report --json "$job" | python3 -c 'import json, sys
jobs = json.load(sys.stdin)["jobs"]
assert [j["missing_ranks"] for j in jobs] == [[3], []], jobs
assert jobs[0]["peak_allocated"]["devices"] == 4' || fail "jobs in report --json"
echo "ranks stand beside each other"
