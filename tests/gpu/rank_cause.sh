#!/bin/bash
# rank_cause.sh TREE OUT - two processes on one GPU as ranks of a job, of which rank 1 keeps something more: the report of the directory says that rank 1 is
# higher, by which line and layer, and that both are on one GPU; `vramscope merge` of the two shows the same.
#
# TREE: an installed vramscope.  Needs a GPU and PyTorch ($TEST_PYTHON or python3).  Takes about 20 s.  Ends with "N passed, N failed"; exit 77 without
# a GPU.  NCCL and FSDP need two GPUs: roles.sh has FSDP.
set -u
tree=$(realpath "${1:?TREE: an installed tree}") out=${2:?OUT: a folder} here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out" && out=$(realpath "$out")
python=${TEST_PYTHON:-python3} V=$tree/bin/vramscope
"$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || { echo "SKIP: no GPU or no PyTorch"; exit 77; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
mkdir "$work/job"
passed=0 failed=0
verdict() { if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi; }
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
echo "$passed passed, $failed failed"
[ $failed = 0 ]
