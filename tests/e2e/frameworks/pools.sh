#!/bin/bash
# Of libraries whose pools report nothing, what they hold is reserved, what is allocated is unknown, and what they answer is in the file.
. "$(dirname "$0")/../lib/lib.bash"
command -v python3 >/dev/null || skip "no Python here"
include=$(sed -n 's/^CUDA_INCLUDE_DIR:[A-Z]*=//p' "$BUILD/CMakeCache.txt")
mib=$((1 << 20))
mkdir -p "$dir/cupy_backends/cuda/api"
xla=$dir/xla_cuda_plugin.so cupy=$dir/cupy_backends/cuda/api/runtime.cpython-311-x86_64-linux-gnu.so nobody=$dir/runtime.so
cat >"$dir/pool.c" <<'END'
#include <cuda.h>
CUresult pool_begin(void)
{
    CUcontext context;
    return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ? CUDA_ERROR_UNKNOWN : cuCtxSetCurrent(context);
}
CUresult pool_take(size_t size, CUdeviceptr *address)
{
    return cuMemAlloc(address, size);
}
END
for library in "$xla" "$cupy" "$nobody"; do
    "${CC:-cc}" -std=gnu11 -fno-optimize-sibling-calls -shared -fPIC -I"$include" -o "$library" "$dir/pool.c" "$BUILD/sim/libcuda.so.1" || fail "no compiler"
done
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here/fake_pools

# program LIBRARY HOW: under `run`, with the same output as without
program() {
    new_run
    python3 "$here/fake_pools/program.py" "$@" >"$dir/plain.out" 2>"$dir/plain.err" || fail "$*: fails by itself: $(cat "$dir/plain.err")"
    VRAMSCOPE_JOURNAL_DIR=$run "$BUILD/bin/vramscope" run -q --simulated -o "$db" -- python3 "$here/fake_pools/program.py" "$@" >"$run/out" 2>"$run/err"
    status=$?
    [ "$status" = 0 ] || fail "$*: status $status"
    cmp -s "$dir/plain.out" "$run/out" || fail "$*: other output: $(cat "$run/out")"
    cmp -s "$dir/plain.err" "$run/err" || fail "$*: on stderr: $(cat "$run/err")"
}
unknown() {
    expect_sql "SELECT peak_bytes, end_bytes FROM peak WHERE kind = 'unknown_use'" "$((512 * mib))|$((512 * mib))"
    expect_sql "SELECT peak_bytes, end_bytes, known_bytes FROM peak WHERE kind = 'allocated'" "||$mib"
    expect_sql "SELECT peak_bytes FROM peak WHERE kind = 'reserved'" $((513 * mib))
    expect_sql "SELECT peak_bytes FROM peak WHERE kind = 'direct'" "$mib"
    expect_sql "SELECT count(*) FROM timeline WHERE device = 0 AND allocated_bytes IS NOT NULL" 0
    expect_sql "SELECT count(*) FROM event WHERE device = 0 AND allocated_bytes IS NOT NULL" 0
    expect_sql "SELECT count(*) FROM phase_peak WHERE device = 0 AND (allocated_bytes IS NOT NULL OR reserved_bytes IS NULL)" 0
    expect_sql "SELECT count(*), sum(managed) FROM allocation WHERE managed = 2" "1|2"
    expect_sql "SELECT sum(size_bytes) FROM live_at_peak" "$mib"
}
uses() { # POOL PEAK
    expect_sql "SELECT text, used_bytes >> 20, peak_bytes >> 20, held_bytes >> 20 FROM pool_use JOIN string ON string.id = pool
                GROUP BY used_bytes ORDER BY t_ns" "$1|100|$2|512"$'\n'"$1|40|$2|512"
}

says() { # TEXT COMMAND...
    local text=$1
    shift
    "$BUILD/bin/vramscope" "$@" >"$run/said" 2>&1 || fail "$*: $(cat "$run/said")"
    grep -qE -- "$text" "$run/said" || fail "$* does not say '$text': $(cat "$run/said")"
}

files() { expect_sql "SELECT state FROM contract WHERE name = 'library_pools'" "$1"; }
program "$xla" jax
files proven
unknown
uses JAX 123
says 'how much is allocated is unknown: up to 512.0 MiB were held' report --all "$db"
says 'JAX +512.0 MiB +123.0 MiB  by a counter of its own' report --all "$db"
says 'whole run .* unknown +513.0 MiB +unknown' report --all "$db"
says 'peak: unknown; the most that is known to have been allocated: 1.00 MiB' report --all "$db"
says "what would lower the peak: unknown, a library's pool does not report what it uses" report --all "$db"
says '1.00 MiB known to be allocated, beside pools whose use is unknown' peak "$db"
says 'known 1.00 MiB' plot "$db"
cp "$db" "$run/same.db"
says "which peak is higher is unknown: a library's pool does not report what it uses" diff "$db" "$run/same.db"
grep -q 'whole run .*1.00 MiB' "$run/said" && fail "a part is compared as if it were all"
"$BUILD/bin/vramscope" report --json "$db" | python3 -c "
import json, sys
d = json.load(sys.stdin)['files'][0]['devices'][0]
kinds = {t['kind']: t for t in d['totals']}
assert kinds['allocated']['peak_bytes'] is None and kinds['allocated']['known_bytes'] == $mib, kinds
assert kinds['unknown_use']['peak_bytes'] == 512 * $mib, kinds
assert d['pools'] == [{'pool': 'JAX', 'answers': d['pools'][0]['answers'], 'held_bytes': 512 * $mib, 'seen_in_use_bytes': 100 * $mib,
                       'peak_in_use_bytes': 123 * $mib}], d['pools']
assert all(p['peak_allocated_bytes'] is None for p in d['phases']), d['phases']
" || fail "report --json"
program "$cupy" cupy
files proven
unknown
expect_sql "SELECT state FROM contract WHERE name = 'pool_figures'" proven
uses CuPy ""
says 'CuPy +512.0 MiB +100.0 MiB  [0-9]+ times' report --all "$db"
for how in "jax-broken JAX: AttributeError: not today" "jax-other JAX: a device says neither bytes_in_use nor its number as it did"; do
    program "$xla" "${how%% *}"
    unknown
    expect_sql "SELECT count(*) FROM pool_use" 0
    expect_sql "SELECT state, detail FROM contract WHERE name = 'pool_figures'" "broken|other libraries: what a pool uses is not known: ${how#* }"
done
program "$xla" jax-fork
unknown
uses JAX 123
program "$xla" none
unknown
expect_sql "SELECT count(*) FROM pool_use" 0
says 'it was not .`vramscope run` asks JAX and CuPy' report --all "$db"

# killed, and completed from its journal: what was unknown stays unknown
VRAMSCOPE_JOURNAL_DIR=$run "$BUILD/bin/vramscope" run -q --simulated -o "$run/killed.db" -- python3 "$here/fake_pools/program.py" "$xla" killed >/dev/null 2>&1
db=$run/killed.db
unknown

# JAX may be told to ask for each array: then nothing is carved up.  A file that is only called like CuPy's is anybody's.
for what in "$xla platform" "$nobody default"; do
    read -r library kind <<<"$what"
    XLA_PYTHON_CLIENT_ALLOCATOR=$kind program "$library" none
    expect_sql "SELECT peak_bytes, end_bytes, known_bytes FROM peak WHERE kind = 'allocated'" "$((513 * mib))|$((513 * mib))|"
    expect_sql "SELECT max(allocated_bytes) FROM timeline" $((513 * mib))
done
# ... and one that JAX is loaded from, though no file of that name is known, is told
program "$nobody" jax
files broken
echo "what a pool holds is not what it uses"
