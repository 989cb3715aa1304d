#!/bin/bash
# rank_cause.sh TREE OUT - two processes on one GPU as ranks of a job, of which rank 1 keeps something more: the report of the directory says that rank 1 is
# higher, by which line and layer, and that both are on one GPU; `vramscope merge` of the two shows the same.
#
# TREE: an installed vramscope.  Needs a GPU and PyTorch ($TEST_PYTHON or python3).  Takes about 20 s.  Ends with "N passed, N failed"; exit 77 without
# a GPU.  NCCL and FSDP need two GPUs: roles.sh has FSDP.
. "$(dirname "$0")/gpu.bash"
need
mkdir "$work/job"
for rank in 0 1; do
    RANK=$rank LOCAL_RANK=0 WORLD_SIZE=2 timeout 60 "$V" run -q -o "$work/job/rank$rank.db" -- "$python" "$here/rank_cause.py" train >"$work/log$rank" 2>&1 &
done
wait
tail -n 3 "$work"/log?
"$python" "$here/rank_cause.py" check "$work/job" "$V"
verdict $?
if "$V" merge -o "$work/job.db" "$work/job" && "$V" report --all "$work/job.db" >"$work/merged.txt" && "$V" report --all "$work/job" >"$work/apart.txt"; then
    grep -E '^highest|more than the lowest' "$work/apart.txt" >"$work/a"
    grep -E '^highest|more than the lowest' "$work/merged.txt" >"$work/b"
    cmp "$work/a" "$work/b"
    verdict $?
else
    echo "FAIL: merge"
    verdict 1
fi
cp "$work"/*.txt "$out" 2>/dev/null
counted
