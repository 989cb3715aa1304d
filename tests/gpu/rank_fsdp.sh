#!/bin/bash
# rank_fsdp.sh TREE OUT - two ranks of FSDP on two GPUs, of which one takes longer sequences and makes a context on the other's GPU: what the report of the
# directory says of it.  TREE: an installed vramscope.  Takes about 40 s.  Exit 77 without two GPUs.
. "$(dirname "$0")/gpu.bash"
gpus=$("$python" -c 'import torch; print(torch.cuda.device_count())' 2>/dev/null || echo 0)
[ "$gpus" -ge 2 ] || { echo "SKIP: fewer than two GPUs"; exit 77; }
mkdir "$work/job"
timeout 120 "$V" run -q -o "$work/job/rank%r.db" -- "$python" -m torch.distributed.run --standalone --nproc-per-node 2 "$here/rank_fsdp.py" >"$work/log" 2>&1 ||
    tail -n 8 "$work/log"
rm -f "$work/job/rank.db" # the launcher's, if it has one
"$python" "$here/rank_fsdp.py" check "$work/job" "$V"
status=$?
"$V" report --all "$work/job" >"$out/fsdp.txt" 2>&1
"$V" merge -o "$work/job.db" "$work/job" && "$V" report --all "$work/job.db" 2>&1 | head -n 8
exit $status
