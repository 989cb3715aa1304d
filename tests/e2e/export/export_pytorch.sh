#!/bin/bash
# A snapshot in PyTorch's own tools: torch.cuda._memory_viz counts in it what the recording has, and draws it.
. "$(dirname "$0")/../lib/lib.bash"
python=${TEST_PYTHON:-}
[ -n "$python" ] || skip "TEST_PYTHON names no Python with PyTorch"
viz=$("$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0] + "/cuda/_memory_viz.py")' 2>/dev/null)
[ -f "$viz" ] || skip "$python has no torch.cuda._memory_viz"
for mode in native expandable; do
    shimmed "$tests/prog_caching" $mode 3000
    [ "$status" = 0 ] || fail "prog_caching $mode: status $status"
    "$V" export --format=pytorch "$db" -o "$run/s.pickle" || fail "export of $mode"
    # the file alone: it needs nothing of PyTorch
    for what in stats trace trace_plot segment_plot; do
        option=()
        [[ $what != *plot ]] || option=(-o "$run/$what.html")
        "$python" -S "$viz" $what "$run/s.pickle" "${option[@]}" >"$run/$what" 2>"$run/err" || fail "$mode: _memory_viz $what: $(tail -n 3 "$run/err")"
    done
    [ "$(grep -c ' = cudaMalloc(' "$run/trace")" -gt 3 ] || fail "$mode: segments in the trace: $(head -n 5 "$run/trace")"
    [ -s "$run/trace_plot.html" ] && [ -s "$run/segment_plot.html" ] || fail "$mode: nothing was drawn"
    # what lives at the end, as a flame graph's lines
    held=$("$python" -S - "$viz" "$run/s.pickle" <<'PY'
import pickle, runpy, sys
viz = runpy.run_path(sys.argv[1])
lines = viz["memory"](pickle.load(open(sys.argv[2], "rb")), format_flamegraph=lambda x: x)
print(sum(int(line.rpartition(" ")[2]) for line in lines.splitlines() if ";active_allocated;" in line))
PY
)
    expect_sql "SELECT end_bytes FROM peak WHERE kind = 'allocated' AND device = 0" "$held"
done
echo "PyTorch's own tools read the snapshot"
