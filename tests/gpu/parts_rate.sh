#!/bin/bash
# parts_rate.sh TREE OUT - a vocabulary in two parts on two GPUs of 20 GiB: its rate (parts_rate.py), and its correctness there. At
# most 270 s. PARTS_RATE_CPU=1: over Gloo.
. "$(dirname "$0")/gpu.bash"
device=cuda
[ -n "${PARTS_RATE_CPU:-}" ] && device=cpu
python3 -c "import torch, sys; sys.exit('$device' == 'cuda' and torch.cuda.device_count() < 2)" 2>/dev/null || {
    echo "skipped: two GPUs, and PyTorch for python3, are needed"
    exit 77
}
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=2 BINDING=$tree/share/vramscope/python LCE_LIBRARY=$tree/lib/liblinear_cross_entropy.so
# part NAME SECONDS COMMAND...: its last lines, and where it failed what it said of that
part() {
    local name=$1 limit=$2 status
    shift 2
    timeout --kill-after=5 "$limit" "$@" >"$out/$name.log" 2>&1
    status=$?
    [ "$status" = 0 ] && return
    failed=1
    echo "FAIL $name ended with $status (124: it took longer than $limit s)"
    grep -A 20 -E '^FAIL|Error|what\(\)' "$out/$name.log" | tail -n 25
}
part parts 60 python3 "$here/../e2e/cross_entropy/cross_entropy_parts.py" "$device"
tail -n 1 "$out/parts.log"
part parts_rate 200 python3 "$here/parts_rate.py" "$out/parts_rate.json"
grep -E '^(two of|ok  |FAIL)' "$out/parts_rate.log" | tee "$out/parts_rate.txt"
echo "after $SECONDS s: $([ "$failed" = 0 ] && echo passed || echo FAILED)"
exit "$failed"
