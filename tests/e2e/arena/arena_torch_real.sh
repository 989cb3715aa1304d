#!/bin/bash
# PyTorch itself, on simulated memory: with `run --allocator=arena` a program sees what it sees with PyTorch's own allocator.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
find_torch
export PYTHONDONTWRITEBYTECODE=1 SIMCUDA_DRY=1 SIMCUDA_CAPACITY=1542MiB # beside the context 1 GiB

# start NAME ALLOCATOR [NAME=VALUE...] -- CASE...: in the background; ended NAME: its output is in $run/out then
start() {
    local name=$1 allocator=$2 variables=()
    shift 2
    for (( ; $# > 0; )); do
        [ "$1" != -- ] || { shift && break; }
        variables+=("$1")
        shift
    done
    mkdir -p "$dir/$name"
    (
        "$BUILD/bin/vramscope" run --simulated -q --allocator="$allocator" -o "$dir/$name/run.db" -- \
            env LD_PRELOAD="$shim:$stand_ins" "${variables[@]}" "$python" "$here/arena_torch_real.py" "$@" \
            >"$dir/$name/out" 2>"$dir/$name/err"
        echo $? >"$dir/$name/status"
    ) &
}
ended() {
    run=$dir/$1 db=$dir/$1/run.db
    [ "$(cat "$run/status")" = 0 ] || fail "$1: exit status $(cat "$run/status")"
    grep '^vramscope' "$run/err" | grep -v 'finds no GPU on the simulated driver' >"$run/said"
}
wanted() {
    cat >"$run/wanted"
    diff "$run/wanted" "$run/out" >"$run/difference" || fail "$1: (< wanted) $(cat "$run/difference")"
}

cases=(counters graphs streams fork profiler late oom)
grep -q '^class MemPool' "$("$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')/cuda/memory.py" && cases+=(pools)
start native off -- "${cases[@]}"
start arena arena -- "${cases[@]}" shared
wait
start failure arena SIMCUDA_FAIL=cuMemCreate:1=719 -- failure convolutions
start own arena -- own_allocator
wait
! in_full || start backend arena PYTORCH_CUDA_ALLOC_CONF=backend:native -- fork
start uncached arena PYTORCH_NO_CUDA_MEMORY_CACHING=1 -- fork
last=(refused)
! in_full || last=(compiled refused)
start last arena -- "${last[@]}"
wait

ended native
ended arena
[ ! -s "$run/said" ] || fail "$(cat "$run/said")"
sed '/^-- shared$/,$d' "$run/out" | diff "$dir/native/out" - >"$run/difference" || fail "with the arena (>): $(head -n 12 "$run/difference")"
[ "$(wc -l <"$run/out")" -gt 150 ] || fail "the cases did not run: $(cat "$run/out")"
expect_sql "$unknown_frees" 0
expect_sql "SELECT count(*) FROM mismatch" 0
expect_sql "SELECT count(*) FROM event WHERE op = 'alloc' AND space NOT IN ('pinned', 'arena')" 0 # no cudaMalloc but our own
expect_sql "SELECT count(*) FROM event WHERE op = 'oom'" 3
expect_sql "SELECT max(framework_bytes) > 0, sum(op = 'block_alloc') = sum(op = 'block_free') FROM event" '1|1'
sed -i '1,/^-- shared$/d' "$run/out"
wanted "tensors through a queue" <<'END'
[0, 1, 2, 3, 4] [10, 11, 12, 13, 14]
[0, 1, 2, 3, 4] [10, 11, 12, 13, 14]
[0, 1, 2, 3, 4] [10, 11, 12, 13, 14]
[0, 1, 2, 3, 4] [10, 11, 12, 13, 14]
0
0
0
END
ended native
expect_sql "SELECT count(*) FROM mismatch" 0
ended failure
wanted "a failure of the driver" <<'END'
-- failure
True CUDA error: unspecified launch failure
3145728 0
-- convolutions
END
ended last
! in_full || sed -i '1,2{/^-- compiled$/d; /^True$/d}' "$run/out"
wanted "torch.compile, and what there is not" <<'END'
-- refused
vramscope's arena has no memory snapshot: see `vramscope report` and `plot`, or run without --allocator=arena
vramscope's arena calls no observer of out of memory: catch torch.OutOfMemoryError, or run without --allocator=arena
1024
END
! in_full || grep -q 'kernels are launched one by one' "$run/said" || fail "nothing was said of graphs"
grep -q '_gpu_trace sees no allocations' "$run/said" || fail "nothing was said of traces"
# who chose an allocator keeps it
ended own
wanted "an allocator of the program's" <<'END'
-- own_allocator
True
END
grep -q 'set an allocator of its own' "$run/said" || fail "not said"
if in_full; then
    ended backend
    grep -q 'names a backend: PyTorch keeps it' "$run/said" || fail "the backend was not respected"
fi
ended uncached
grep -q 'each tensor is a cudaMalloc' "$run/said" || fail "the choice to have no cache was not respected"
expect_sql "SELECT count(*) > 0 FROM event WHERE op = 'alloc'" 1
expect_sql "SELECT frees > 0, free_waits FROM arena" '1|0' # nobody waits at a free
echo "PyTorch sees no difference"
