#!/bin/bash
# Under `vramscope run` every allocation of a PyTorch program is in the phase that made it, and every report of this torch is one that the
# shim defines.
python=${TEST_PYTHON:-python3}
"$python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' 2>/dev/null ||
    { echo "SKIPPED: $python has no torch (TEST_PYTHON names one that has)"; exit 77; }
. "$(dirname "$0")/../lib/lib.bash"
export TORCHINDUCTOR_CACHE_DIR=$dir/inductor
# Every report that this torch's allocator makes is one that we define.
c10=$("$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')/lib/libc10_cuda.so
if [ -f "$c10" ] && command -v nm >/dev/null; then
    nm -D --defined-only "$shim" | sed 's/.* //' | sort >"$dir/ours"
    missing=$(nm -D --undefined-only "$c10" | sed -n 's/.* //; /_ZN3c10.*report.*Profiler/p' | sort | comm -23 - "$dir/ours")
    [ -z "$missing" ] || fail "libc10_cuda calls $missing, which we do not define"
fi

new_run
"$BUILD/bin/vramscope" run --simulated -o "$db" -- "$python" "$here/torch_recorded.py" >"$run/out" 2>"$run/err"
status=$?
[ $status = 0 ] || fail "exit status $status"
expect_sql "SELECT DISTINCT (size_bytes / 1048576) || ' ' || phase FROM event WHERE op = 'alloc' ORDER BY 1" \
    $'1 none\n2 forward\n3 logits\n4 logits\n5 backward\n6 optimizer\n7 none'
expect_sql "SELECT phase, ranges FROM phase_peak WHERE phase <> 'none' ORDER BY phase" \
    $'backward|3\nforward|3\nlogits|3\noptimizer|3'
expect_sql "SELECT group_concat(step) FROM step" 1,2,3
expect_sql "SELECT count(*) FROM range WHERE t_pop_ns IS NULL OR source <> 'automatic'" 0
expect_clean
"$BUILD/bin/vramscope" report --all "$db" >"$run/report" || fail "report"
grep -q "3 steps, " "$run/report" || fail "other than 3 steps: $(cat "$run/report")"

echo "every allocation is in the phase that made it"
