#!/bin/bash
# roles.sh TREE OUT [CASE...] - what blocks are for, by their accesses alone, against PyTorch's own word (roles.py), and what asking
# PyTorch costs. fsdp needs two GPUs, llama transformers. A minute.
. "$(dirname "$0")/gpu.bash"
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 # multicast can put the host's GPUs out of service
gpus=$("$python" -c 'import torch; print(torch.cuda.device_count())' 2>/dev/null || echo 0)
[ "$gpus" -ge 1 ] || { echo "SKIP: no GPU or no PyTorch"; exit 77; }
shift 2
cases=("$@")
[ ${#cases[@]} -gt 0 ] || cases=(llama cnn checkpoint accumulate fsdp asking)
wanted() { [[ " ${cases[*]} " == *" $1 "* ]]; }
one() { # CASE: trained and checked; its exit status
    timeout 120 "$V" run --access -q -o "$work/$1.db" -- "$python" "$here/roles.py" train "$1" 8 "$work/$1.json" >"$work/$1.log" 2>&1 ||
        { echo "FAIL: $1 ended with $?"; tail -n 5 "$work/$1.log"; }
    "$python" "$here/roles.py" check "$1" "$work/$1.db" "$work/$1.json"
    local status=$?
    { "$V" report --all "$work/$1.db" | head -n 25; "$V" peak --by role --why "$work/$1.db"; "$V" waste "$work/$1.db"; } >"$out/$1.txt" 2>&1
    return $status
}
declare -A trained
for case in llama cnn checkpoint accumulate; do
    wanted $case || continue
    [ $case != llama ] || "$python" -c 'import transformers' 2>/dev/null || { echo "SKIP llama: no transformers"; continue; }
    one $case >"$work/$case.said" 2>&1 &
    trained[$case]=$!
done
for case in "${!trained[@]}"; do
    wait "${trained[$case]}"
    verdict $?
    cat "$work/$case.said"
done
if ! wanted fsdp; then
    :
elif [ "$gpus" -ge 2 ]; then
    # each rank writes its own log: what a failed rank said last stands there, not in the launcher's summary
    timeout 180 "$V" run --access -q -o "$work/fsdp-%r.db" -- "$python" -m torch.distributed.run --standalone --nproc-per-node 2 \
        --log-dir "$work/ranks" --redirects 3 "$here/roles.py" train fsdp 8 "$work/fsdp.json" >"$work/log" 2>&1 || {
        echo "FAIL: fsdp ended with $?"
        find "$work/ranks" -name stderr.log -size +0 -exec tail -n 12 {} +
        tail -n 5 "$work/log"
    }
    for rank in 0 1; do
        "$python" "$here/roles.py" check fsdp "$work/fsdp-$rank.db" "$work/fsdp.json.$rank"
        verdict $?
    done
    "$V" report --all "$work"/fsdp-[01].db >"$out/fsdp.txt" 2>&1
else
    echo "SKIP fsdp: one GPU"
fi
# what asking costs: the share of the time that was spent in it, as it counts itself
wanted asking && {
timeout 120 "$V" run -q -o "$work/cost.db" -- "$python" - "$here" <<'PY'
import sys, time
sys.argv = ["roles.py"] + sys.argv[1:]
sys.path.insert(0, sys.argv[1])
import roles
from vramscope import _roles as vramscope_roles
began = time.perf_counter()
roles.train("accumulate", 60, "/dev/null", False)
share = vramscope_roles._spent / (time.perf_counter() - began)
print(f"{'PASS' if share < 0.01 else 'FAIL'} asking: {vramscope_roles._looks} looks took {vramscope_roles._spent * 1e3:.2f} ms, {share:.2%} of the time")
sys.exit(share >= 0.01)
PY
verdict $?
}
counted
