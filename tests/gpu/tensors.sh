#!/bin/bash
# tensors.sh TREE OUT - what tensor each block was made for (request, element type, shape), against PyTorch's memory history and the
# tensors that live at the end (tensors.py): in bf16, under autocast, in a CUDA graph, on the arena, in expandable segments. Half a
# minute.
. "$(dirname "$0")/gpu.bash"
need
one() { # CASE NAME [VARIABLE=VALUE...]: its verdicts on stdout
    local case=$1 name=$2
    shift 2
    env "$@" timeout 150 "$V" run -q -o "$work/$name.db" -- "$python" "$here/tensors.py" train "$case" "$work/$name.json" >"$work/$name.log" 2>&1 || {
        echo "FAIL $name: ended with $?"
        grep -v '^$' "$work/$name.log" | tail -n 5
        return
    }
    "$python" "$here/tensors.py" check "$case" "$name" "$work/$name.db" "$work/$name.json" >"$work/$name.checked" 2>&1 ||
        grep -q '^FAIL' "$work/$name.checked" || echo "FAIL $name: the check died" >>"$work/$name.checked"
    cat "$work/$name.checked"
    "$V" peak --top=20 "$work/$name.db" >"$out/$name.txt" 2>&1
    sqlite3 -header "$work/$name.db" "SELECT made_for, element_type, count(*) AS blocks, sum(size_bytes) AS bytes, sum(request_bytes) AS requested
        FROM live_at_peak GROUP BY 1, 2 ORDER BY 4 DESC" >>"$out/$name.txt" 2>&1
}
one llama llama A= >"$work/1" &
one cnn cnn A= >"$work/2" &
one graph graph A= >"$work/3" &
one llama arena VRAMSCOPE_ALLOCATOR=arena TENSORS_PLUGGED=1 >"$work/4" &
one llama expandable PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True >"$work/5" &
wait
cat "$work"/[1-5] | tee "$work/all"
passed=$(grep -c '^PASS' "$work/all") failed=$(grep -c '^FAIL' "$work/all")
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
