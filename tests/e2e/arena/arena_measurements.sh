#!/bin/bash
# What tests/gpu measures of the arena, as far as it goes without a GPU: the stress finds planted reuse and nothing else, tables and the plot are what
# the figures say.
. "$(dirname "$0")/../lib/lib.bash"
gpu=$(cd "$(dirname "$0")/../../gpu" && pwd)
scripts=$(cd "$(dirname "$0")/../../../scripts" && pwd)
command -v python3 >/dev/null || skip "no python3"
export PYTHONDONTWRITEBYTECODE=1
include=$(sed -n 's/^CUDA_INCLUDE_DIR:[A-Z]*=//p' "$BUILD/CMakeCache.txt")

# the C parts, on the simulated driver
new_run
cmake --install "$BUILD" --prefix "$dir/tree" >/dev/null || fail "cmake --install"
ARENA_PARTS="stress pairs" QUICK=1 DRIVER=$BUILD/sim CUDA_INCLUDE=$include timeout 240 "$gpu/arena_bench.sh" "$dir/tree" "$run/bench" >"$run/out" 2>"$run/err" ||
    fail "arena_bench.sh: status $?"
grep -q '^ok    stress-planted-late' "$run/out" || fail "planted reuse was not found"
[ "$(grep -c "every word was right" "$run/out")" -ge 3 ] || fail "not all runs were right"
[ "$(grep -c 'ns a pair' "$run/out")" -ge 12 ] || fail "pairs were not timed"

# the tables, of made-up figures and of recordings
shim_env=(VRAMSCOPE_ALLOCATOR=arena)
run_shimmed "$tests/prog_arena" gaps
arena_db=$db
shim_env=()
shimmed "$tests/prog_caching" expandable 3000
python3 "$(dirname "$0")/arena_tables.py" "$dir" "$arena_db" "$db" >"$run/out" 2>"$run/err" || fail "tables"
python3 "$gpu/arena_table.py" --only nobody x y 2>"$run/err" && fail "an unknown configuration was taken"
grep -q "no configuration nobody" "$run/err" || fail "an unknown configuration was not said"
if command -v gnuplot >/dev/null; then
    "$scripts/arena_sweep_plot.sh" "$dir/sweep.tsv" "$run/sweep.png" "SYNTHETIC DATA" >"$run/out" 2>"$run/err" || fail "the plot"
    [ "$(head -c 4 "$run/sweep.png" | tail -c 3)" = PNG ] && [ -s "$run/sweep.gp" ] || fail "no plot was drawn"
    grep -v expandable "$dir/sweep.tsv" >"$run/part.tsv"
    "$scripts/arena_sweep_plot.sh" "$run/part.tsv" "$run/part.png" >"$run/out" 2>&1 && fail "a sweep without one allocator was drawn"
fi

# without a GPU
if [ ! -e /dev/nvidiactl ]; then
    for script in arena_bench arena_ddp; do
        "$gpu/$script.sh" "$dir/tree" "$run/none" >"$run/out" 2>&1
        [ $? = 77 ] || fail "$script.sh without a GPU: not 77"
    done
fi

echo "the arena's measurements, without a GPU"
