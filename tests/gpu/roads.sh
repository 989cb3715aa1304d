#!/usr/bin/env bash
# roads.sh TREE OUT - every road to the driver, on a GPU: each program runs without the shim, preloaded and under `run`; output and
# exit status are the same, and its recording holds exactly the events that roads/verify.py is given.
#
# Needs gcc; nvcc, cupy, jax, torch for their roads. DRIVER=DIR: the simulated driver (no runtime, no frameworks).
. "$(dirname "$0")/gpu.bash"
cd "$out" || exit 1
src=$here/roads
unset LD_PRELOAD VRAMSCOPE_OUTPUT VRAMSCOPE_CLAIM CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH PYTHONPATH
find_driver
cuda=${CUDA_HOME:-/usr/local/cuda}
[ -d "$cuda" ] || cuda=$(dirname "$(dirname "$(realpath "$(command -v nvcc)")")")
include=${CUDA_INCLUDE:-$cuda/include}

# databases NAME: those of a run of it, the first one first
databases() { find "$out" -maxdepth 1 \( -name "$1.db" -o -name "$1-*.db" \) | awk '{print length, $0}' | sort -n | cut -d' ' -f2-; }

# recorded NAME COMMAND...: plain, preloaded as NAME-preload, under run as NAME-run.  Journals of processes that left by _exit are merged.
recorded() {
    local name=$1 how status
    shift
    rm -f "$out/$name"[-.]*
    "$@" >"$name.out" 2>"$name.err" </dev/null
    echo $? >"$name.status"
    VRAMSCOPE_OUTPUT=$out/$name-preload.db VRAMSCOPE_JOURNAL_DIR=$out LD_PRELOAD=$shim "$@" >"$name-preload.out" 2>"$name-preload.err" </dev/null
    echo $? >"$name-preload.status"
    "$V" run -q -o "$out/$name-run.db" --journal-dir "$out" -- "$@" >"$name-run.out" 2>"$name-run.err" </dev/null
    echo $? >"$name-run.status"
    find "$out" -maxdepth 1 -name '*.vsj' -exec "$V" recover {} + >"$name.recover" 2>&1
    for how in preload run; do
        status=$(cat "$name-$how.status")
        if [ "$status" != "$(cat "$name.status")" ]; then
            fail "$name-$how: exit status $status, $(cat "$name.status") without" && tail -n 5 "$name-$how.err"
        elif ! cmp -s "$name.out" "$name-$how.out"; then
            fail "$name-$how: other output" && diff "$name.out" "$name-$how.out" | head -n 5
        else
            pass "$name-$how: output and exit status ($status) as without"
        fi
    done
}

# verified FILE [verify.py's options] <EXPECTED: the events of one database
verified() {
    if [ -z "$1" ] || [ ! -e "$1" ]; then
        fail "${1:-a database}: nothing was recorded"
    elif python3 "$src/verify.py" "$@" >"$1.verify" 2>&1; then
        pass "$(basename "$1"): the events are those expected"
    else
        fail "$(basename "$1"): $(head -n 30 "$1.verify")"
    fi
}

# road NAME EXPECTED COMMAND...: one process, one file
road() {
    local name=$1 expected=$2 how
    shift 2
    recorded "$name" "$@"
    for how in preload run; do
        [ "$(databases "$name-$how" | wc -l)" = 1 ] || fail "$name-$how: files: $(databases "$name-$how")"
        verified "$out/$name-$how.db" <<<"$expected"
    done
}

# children NAME EXPECTED EXPECTED COMMAND...: two children, a file each
children() {
    local name=$1 first=$2 second=$3 how files
    shift 3
    recorded "$name" "$@"
    for how in preload run; do
        mapfile -t files < <(databases "$name-$how")
        [ ${#files[@]} = 2 ] || fail "$name-$how: files: ${files[*]}"
        verified "${files[0]:-}" <<<"$first"
        verified "${files[1]:-}" <<<"$second"
    done
}

one() { # one SIZE: the events of a child that uses SIZE bytes
    printf 'alloc|device|cuMemAlloc_v2|%d|0\nfree|device|cuMemFree_v2|%d|0\n' "$1" "$1"
}

# ---- programs that need no runtime ----

work='alloc|device|cuMemAlloc_v2|1000|0
free|device|cuMemFree_v2|1000|0
alloc|device|cuMemAlloc_v2|2000|0
alloc|pinned|cuMemHostAlloc|4096|0
alloc|device|cuMemAlloc_v2|17592186044416|2
free|pinned|cuMemFreeHost|4096|0'
more="$work
$(one 3000)"
build() { # build OUTPUT ARGUMENTS...
    "${CC:-gcc}" -O1 -I"$include" -o "$@" -ldl || { fail "$1 does not build" && return 1; }
}
library() { build "$1" -shared -fPIC "$src/plugin.c" "${@:2}"; }
driver_programs() {
    build roads "$src/roads.c" && build roads_linked -DLINKED "$src/roads.c" "$driver" && library plugin_now.so -Wl,-z,now "$driver" &&
        library plugin_lazy.so -Wl,-z,lazy "$driver" && library plugin_weak.so -DPLUGIN_WEAK && library plugin_asks.so -DPLUGIN_ASKS &&
        build plugin_loads.so -shared -fPIC -DPLUGIN_LOADS "$src/plugin.c" ./plugin_asks.so "$driver" "-Wl,-rpath,$out"
}
driver_roads() {
    local name library
    road linked "$work" ./roads_linked linked
    for name in dlsym local deepbound global next program proc1 proc2 ptsz; do
        road "$name" "$work" ./roads "$name"
    done
    road absolute "$work" ./roads absolute "$driver"
    for library in now lazy; do
        for name in plugin deepbind deepbind-local; do
            road "$name-$library" "$more" ./roads "$name" "./plugin_$library.so"
        done
    done
    road weak-linked "$more" ./roads_linked plugin ./plugin_weak.so
    road loaders-scope "$work" ./roads plugin ./plugin_loads.so
    recorded weak-alone ./roads plugin ./plugin_weak.so
    if grep -qx "no driver" weak-alone-preload.out && [ -z "$(databases weak-alone-preload)" ]; then
        pass "weak-alone: no driver, no file"
    else
        fail "weak-alone: $(cat weak-alone-preload.out) $(databases weak-alone-preload)"
    fi
}
if driver_programs; then driver_roads; fi

# ---- Python and child processes ----

road ctypes "$(one 3000)" python3 "$src/children.py" ctypes
road subprocess "$(one 4000)" python3 "$src/children.py" subprocess
for how in fork spawn forkserver; do
    children "$how" "$(one 1000)" "$(one 2000)" python3 "$src/children.py" $how
done

# ---- workers without the library ----

for how in cleared replaced; do
    recorded "$how" python3 "$src/children.py" $how
    verified "$out/$how-run.db" <<<"$(one 4000)"
    [ ! -e "$how-preload.db" ] && pass "$how-preload: nothing could be recorded, and no file says otherwise" || fail "$how-preload: a file"
done
recorded unhooked env -u LD_PRELOAD ./roads dlsym
verified "$out/unhooked-run.db" --loss not_covered <<<''
grep -q 'is NOT RECORDED: LD_PRELOAD was removed' unhooked-run.err && pass "unhooked-run: told on stderr" || fail "unhooked-run: $(cat unhooked-run.err)"
"$V" report --all unhooked-run.db 2>&1 | grep -q '^GAP: ' && pass "unhooked-run: told by report" || fail "unhooked-run: the report is silent"
recorded wrapped env -u LD_PRELOAD "$V" wrap -- ./roads dlsym
verified "$out/wrapped-run.db" <<<"$work"

# ---- the CUDA runtime ----

floats=1048576
runtime="alloc|device|cuMemAlloc_v2|$floats|0
alloc|pinned|cuMemHostAlloc|4096|0
alloc|managed|cuMemAllocManaged|$((floats + 4096))|0
alloc|pool|cuMemAllocAsync|$((floats + 8192))|0
alloc|registered|cuMemHostRegister_v2|8192|0
free|registered|cuMemHostUnregister|8192|0
free|pool|cuMemFreeAsync|$((floats + 8192))|0
free|managed|cuMemFree_v2|$((floats + 4096))|0
free|pinned|cuMemFreeHost|4096|0
free|device|cuMemFree_v2|$floats|0"
runtime_roads() { # runtime_roads static|shared
    nvcc -arch=native -cudart "$1" -o "runtime_$1" "$src/runtime.cu" || { fail "runtime_$1 does not build" && return; }
    road "runtime-$1" "$runtime" "./runtime_$1" calls
    road "entry-$1" "$(one $floats)" "./runtime_$1" entry
    road "entry-by-version-$1" "$(one $floats)" "./runtime_$1" entry-by-version
}
# What cuBLAS asks for is its own business: it must lie between the program's own, and all of it be freed with the handle.
cublas_road() {
    local how bad
    nvcc -arch=native -cudart shared -DWITH_CUBLAS -o runtime_cublas "$src/runtime.cu" -lcublas || { fail "runtime_cublas does not build" && return; }
    recorded cublas ./runtime_cublas cublas
    for how in preload run; do
        verified "$out/cublas-$how.db" --contains <<<"alloc|device|cuMemAlloc_v2|$floats|0
alloc|device|cuMemAlloc_v2|$floats|0
free|device|cuMemFree_v2|$floats|0
free|device|cuMemFree_v2|$floats|0"
        bad=$(python3 - "$out/cublas-$how.db" <<'PY'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
owned = db.execute("SELECT count(*), ifnull(sum(size_bytes), 0), sum(free_seq IS NULL) FROM allocation "
                   "WHERE owner LIKE 'libcublas%' AND space = 'device'").fetchone()
print("" if owned[0] >= 1 and owned[1] >= 1 << 20 and not owned[2] else f"allocations, bytes, never freed: {owned}")
PY
        )
        [ -z "$bad" ] && pass "cublas-$how: its workspace was seen, and freed" || fail "cublas-$how: $bad"
    done
}
if [ -z "${DRIVER:-}" ] && command -v nvcc >/dev/null; then
    runtime_roads static
    runtime_roads shared
    cublas_road
else
    skip "the roads through the CUDA runtime: no nvcc, or a simulated driver"
fi

# ---- frameworks ----

framework() { # framework MODULE NAME EXPECTED
    if [ -n "${DRIVER:-}" ] || ! python3 -c "import $1" 2>/dev/null; then
        skip "$2: no $1 here"
        return
    fi
    local how
    recorded "$2" python3 "$src/frameworks.py" "$2"
    for how in preload run; do
        verified "$out/$2-$how.db" --contains <<<"$3"
    done
}
framework cupy cupy "$(one 3145728)"
framework cupy cupy-pool 'alloc|device|cuMemAlloc_v2|20971520|0'
framework torch torch 'alloc|device|cuMemAlloc_v2|33554432|0'
# JAX's platform allocator: each array is physical memory of its own with an address of its own, and goes in reverse
framework jax jax 'phys_create|device|cuMemCreate|25165824|0
va_reserve|address|cuMemAddressReserve|25165824|0
map|device||25165824|0
unmap|device|cuMemUnmap|25165824|0
phys_release|device|cuMemRelease|25165824|0
va_free|address|cuMemAddressFree|25165824|0'

# ---- what the driver's loading of the library leaves behind ----

# cuInit in one process each without us, with the library preloaded, and with CUDA_INJECTION64_PATH as well
rm -f start.*
for how in "" "LD_PRELOAD=$shim" "LD_PRELOAD=$shim CUDA_INJECTION64_PATH=$shim"; do
    # shellcheck disable=SC2086 # a list of variables
    env VRAMSCOPE_OUTPUT="$out/start.db" $how ./roads start >>start.out 2>>start.err || fail "cuInit alone: $(tail -n 1 start.err)"
done
[ -z "$(databases start)" ] && pass "cuInit alone makes no file" || fail "cuInit alone made a file: $(databases start)"

counted
