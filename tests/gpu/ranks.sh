#!/bin/bash
# ranks.sh TREE OUT - two ranks, of which one holds more (ranks.py): the report of their directory says which one and of what, and
# whose context lies on the other's GPU; `vramscope merge` shows the same. `fsdp` needs two GPUs. A minute.
. "$(dirname "$0")/gpu.bash"
need
mkdir "$work/kept" "$work/fsdp"
for rank in 0 1; do
    RANK=$rank LOCAL_RANK=0 WORLD_SIZE=2 timeout 60 "$V" run -q -o "$work/kept/rank$rank.db" -- "$python" "$here/ranks.py" kept >"$work/log$rank" 2>&1 &
done
wait
tail -n 3 "$work"/log?
jobs=kept
if [ "$("$python" -c 'import torch; print(torch.cuda.device_count())')" -ge 2 ]; then
    jobs="kept fsdp"
    timeout 120 "$V" run -q -o "$work/fsdp/rank%r.db" -- "$python" -m torch.distributed.run --standalone --nproc-per-node 2 "$here/ranks.py" fsdp >"$work/log" 2>&1 ||
        tail -n 8 "$work/log"
    rm -f "$work/fsdp/rank.db" # the launcher's, if it has one
else
    echo "SKIP fsdp: one GPU"
fi
for job in $jobs; do
    "$python" "$here/ranks.py" check $job "$work/$job" "$V"
    verdict $?
    "$V" report --all "$work/$job" >"$out/$job.txt" 2>&1 && "$V" merge -o "$work/$job.db" "$work/$job" && "$V" report --all "$work/$job.db" >"$work/merged.txt" &&
        cmp <(grep -E '^highest|more than the lowest' "$out/$job.txt") <(grep -E '^highest|more than the lowest' "$work/merged.txt")
    verdict $? "$job: merged, the report says the same"
done
counted
