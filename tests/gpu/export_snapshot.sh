#!/usr/bin/env bash
# export_snapshot.sh TREE OUT - `export --format=pytorch` beside PyTorch's own history (export_snapshot.py), with native and with
# expandable segments.
python=python3
. "$(dirname "$0")/gpu.bash"
need
for mode in native expandable; do
    rm -f "$out/$mode.db"*
    conf=expandable_segments:$([ $mode = native ] && echo False || echo True)
    PYTORCH_CUDA_ALLOC_CONF=$conf PYTORCH_ALLOC_CONF=$conf "$tree/bin/vramscope" run -o "$out/$mode.db" -- \
        python3 "$here/export_snapshot.py" run "$out/$mode.theirs" >"$out/$mode.log" 2>&1 || { tail -n 20 "$out/$mode.log"; exit 1; }
    "$tree/bin/vramscope" export --format=pytorch "$out/$mode.db" -o "$out/$mode.ours" || failed=1
    echo "$mode:"
    python3 "$here/export_snapshot.py" compare "$out/$mode.theirs" "$out/$mode.ours" || failed=1
    rm -f "$out/$mode.theirs" "$out/$mode.ours"
done
exit $failed
