#!/bin/bash
# tensors.sh TREE OUT - what tensor each block was made for (request, element type, shape), against PyTorch's own memory history and
# the tensors that live at the end: a Llama-like model in bf16, a CNN under autocast with sorting and resizing, a CUDA graph,
# and the Llama on the arena; an out-of-memory in each but the last.  What peak says of the largest lies under OUT.
#
# TREE: an installed vramscope.  Needs PyTorch ($TEST_PYTHON or python3).  Takes about two minutes.  Ends with "N passed, N failed"; exit 77
# without a GPU.
set -u
tree=$(realpath "${1:?TREE: an installed tree}") out=${2:?OUT: a folder} here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out" && out=$(realpath "$out")
python=${TEST_PYTHON:-python3} V=$tree/bin/vramscope
gpus=$("$python" -c 'import torch; print(torch.cuda.device_count())' 2>/dev/null || echo 0)
[ "$gpus" -ge 1 ] || { echo "SKIP: no GPU or no PyTorch"; exit 77; }
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
passed=0 failed=0
one() { # CASE NAME [VARIABLE=VALUE...]
    local case=$1 name=$2
    shift 2
    env "$@" timeout 150 "$V" run -q -o "$work/$name.db" -- "$python" "$here/tensors.py" train "$case" "$work/$name.json" >"$work/log" 2>&1 || {
        echo "FAIL $name: ended with $?"
        tail -n 5 "$work/log"
        failed=$((failed + 1))
        return
    }
    "$python" "$here/tensors.py" check "$case" "$work/$name.db" "$work/$name.json" >"$work/checked"
    cat "$work/checked"
    passed=$((passed + $(grep -c '^PASS' "$work/checked"))) failed=$((failed + $(grep -c '^FAIL' "$work/checked")))
    "$V" peak --top=20 "$work/$name.db" >"$out/$name.txt" 2>&1
    sqlite3 -header "$work/$name.db" "SELECT made_for, element_type, count(*) AS blocks, sum(size_bytes) AS bytes, sum(request_bytes) AS requested
        FROM live_at_peak GROUP BY 1, 2 ORDER BY 4 DESC" >>"$out/$name.txt" 2>&1
}
one llama llama A=
one cnn cnn A=
one graph graph A=
one llama arena VRAMSCOPE_ALLOCATOR=arena TENSORS_PLUGGED=1
one llama expandable PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
echo "$passed passed, $failed failed"
[ $failed = 0 ]
