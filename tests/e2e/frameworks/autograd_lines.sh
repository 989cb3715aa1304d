#!/bin/bash
# Blocks born in backward have the line of the forward that made their node, code that ran there its own, and what has no line the node's
# name.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
find_torch
limit=300
export TORCHINDUCTOR_CACHE_DIR=$dir/inductor TMPDIR=$dir # the precompiled headers go into the latter
stand_in_env=(LD_PRELOAD="$shim:$stand_ins" LD_LIBRARY_PATH="$BUILD/sim:$BUILD/dry" SIMCUDA_DRY=1)

# every size that the program says: exactly these lines, of blocks that were born in backward
lines_agree() {
    sort "$run/out" >"$run/wanted"
    sqlite3 -batch -noheader -separator $'\t' "$db" "SELECT DISTINCT size_bytes, line FROM allocation
        WHERE op = 'block_alloc' AND stack IN (SELECT id FROM stack WHERE node IS NOT NULL)
        AND size_bytes IN ($(cut -f1 "$run/out" | sort -u | paste -sd,))" | sort >"$run/lines"
    diff "$run/wanted" "$run/lines" >"$run/difference" || fail "$1: lines (< wanted, > recorded): $(cat "$run/difference")"
}

for stacks in $(! in_full || echo python) all; do
    shim_env=("${stand_in_env[@]}" "VRAMSCOPE_STACKS=$stacks")
    shimmed "$python" "$here/autograd_lines.py"
    [ "$status" = 0 ] || fail "$stacks: exit status $status"
    lines_agree "$stacks"
    expect_sql "SELECT count(*) FROM loss WHERE code = 'births'" 0
    # a frame of a node has a name alone, and stands between what ran in it and what made it
    expect_sql "SELECT count(*) FROM frame WHERE kind = 3 AND (function IS NULL OR file IS NOT NULL OR line IS NOT NULL OR module IS NOT NULL)" 0
    # nothing of the thread's own frames outside of the run is among them
    expect_sql "SELECT count(*) FROM stack s JOIN frame f ON f.id = s.frame WHERE s.node IS NOT NULL AND f.function = '_engine_run_backward'
        AND s.id IN (SELECT stack FROM allocation)" 0
    "$here/../../oracle/oracle.py" check "$db" >"$run/oracle" 2>&1 || fail "$stacks: the oracle: $(head -n 5 "$run/oracle")"
done
"$BUILD/bin/vramscope" peak --by=line --top=0 "$db" >"$run/peak" || fail "peak"
"$BUILD/bin/vramscope" peak --json "$db" >"$run/peak.json" || fail "peak --json"
grep -q '"kind": *"autograd"' "$run/peak.json" || fail "no node in a stack of JSON"
if in_full; then
    shim_env=("${stand_in_env[@]}" VRAMSCOPE_STACKS=driver)
    shimmed "$python" "$here/autograd_lines.py"
    [ "$status" = 0 ] || fail "driver: exit status $status"
    expect_sql "SELECT count(*) FROM stack WHERE node IS NOT NULL" 0
fi
shim_env=("${stand_in_env[@]}")
# shellcheck disable=SC2046 # words; torch.compile takes as long as all the rest
shimmed "$python" "$here/autograd_lines.py" window overwritten $(! in_full || echo compiled)
[ "$status" = 0 ] || fail "window, overwritten, compiled: exit status $status"
lines_agree "window, overwritten, compiled"
expect_sql "SELECT count(*) > 0 FROM loss WHERE code = 'births' AND events = 0" 1
echo "blocks that are born in backward have their forward's line"
