#!/bin/bash
# What is recorded of a PyTorch allocator replays exactly, every address and segment event; where something is not recorded, it is said
# what.
. "$(dirname "$0")/../lib/lib.bash"
export COLUMNS=2000 # a sentence is a line
include=$(sed -n 's/^CUDA_INCLUDE_DIR:[A-Z]*=//p' "$BUILD/CMakeCache.txt")
# make FLAG...: the three libraries
make() {
    rm -rf "${dir:?}/lib" && mkdir "$dir/lib"
    build() { "${CC:-cc}" -std=gnu11 -O1 -I"$include" -shared -fPIC -o "$dir/lib/$1" "$here/live_torch.c" "${@:2}" || fail "$1 can't be built"; }
    build libcudart.so.13 -DRUNTIME -Wl,-soname,libcudart.so.13
    build libc10.so -DREAL -Wl,-soname,libc10.so
    build libc10_cuda.so -DCALLER "$@" -Wl,-rpath,"\$ORIGIN" "$dir/lib/libc10.so" "$dir/lib/libcudart.so.13" "$BUILD/sim/libcuda.so.1"
}
export PYTHONPATH=$here:$here/../../../shim/framework/python PYTHONDONTWRITEBYTECODE=1
live() { # CASE [NAME=VALUE...]
    local conf
    conf=$(python3 "$here/live_allocator.py" conf "$1")
    shim_env=(PYTORCH_ALLOC_CONF="$conf" SIMCUDA_CAPACITY=1GiB VRAMSCOPE_AUTO_PHASES=off VRAMSCOPE_REEXEC=off "${@:2}")
    shimmed python3 "$here/live_allocator.py" "$dir/lib/libc10_cuda.so" "$1"
    [ "$status" = 0 ] || fail "$1: status $status"
    policy=torch-native
    [ "${1#expandable}" = "$1" ] || policy=torch-expandable
    "$V" whatif --policy=$policy "$db" >"$run/text" 2>&1 || fail "$1: whatif: $(cat "$run/text")"
}
exact() { # CASE: all of its requests, and at least its segment events (pieces of expandable segments are more)
    local requests events met
    read -r requests events <"$run/out"
    met=$(sed -n "s/^  $policy:\( up to the refused request\)\{0,1\}\( fits after [^;]*;\)\{0,1\} exact: $requests of $requests addresses and \([0-9]*\) of \3 segment events as recorded$/\3/p" "$run/text")
    [ "${met:-0}" -ge "$events" ] || fail "$1: $requests requests and $events segment events, and: $(cat "$run/text")"
}

# back CASE: what was recorded, exported as a snapshot of PyTorch's and imported again, replays as exactly
back() {
    rm -f "$run"/back*
    "$V" export --format=pytorch -o "$run/back.pickle" "$db" >"$run/text" 2>&1 || fail "$1: export: $(cat "$run/text")"
    "$V" import -o "$run/back.db" "$run/back.pickle" >"$run/text" 2>&1 || fail "$1: import: $(cat "$run/text")"
    "$V" whatif --policy=$policy "$run/back.db" >"$run/text" 2>&1 || fail "$1: whatif of the import: $(cat "$run/text")"
    if [ "$1" = collect ]; then # a share of a limit, for which a snapshot has no place
        grep -q "not exact: .*(garbage_collection_threshold is a share of a memory that is not recorded)" "$run/text" || fail "$1: $(cat "$run/text")"
    else
        exact "$1"
    fi
}

# unused CASE: what is reserved and not allocated is taken apart as the allocator says, whose last block is larger than all others together
unused() {
    live "$1" SIMCUDA_CAPACITY=16GiB UNUSED="$dir/unused.json"
    exact "$1"
    "$V" peak --json "$db" >"$run/peak.json" || fail "peak $1"
    python3 "$here/unused.py" "$1" "$dir/unused.json" <"$run/peak.json" || fail "a recording"
    "$V" peak "$db" >"$run/peak" || fail "peak $1"
    case $1 in
    streams) # freed blocks that wait for a stream have its number, and the line that called record_stream
        grep -q "freed, waits for stream [2-9]: [0-9]* blocks, record_stream() at live_allocator.py:[0-9]* Live.free; free when" "$run/peak" || fail "what waits: $(cat "$run/peak")"
        ;;
    graphs) # a CUDA graph's capture has the line that made it, and its pool's memory
        grep -q "private pool.* of CUDA graphs: captured in 2 captures, the first at live_allocator.py:[0-9]* graphs" "$run/peak" || fail "a pool of two captures: $(cat "$run/peak")"
        "$V" peak --by capture "$db" >"$run/peak" || fail "peak --by capture"
        [ "$(grep -c 'live_allocator.py:[0-9]* graphs' "$run/peak")" = 3 ] && grep -q "in no capture" "$run/peak" || fail "three captures: $(cat "$run/peak")"
        ;;
    esac
}

make -Wl,-z,now
stacks=python
for case in $(python3 "$here/live_allocator.py" cases); do
    case $case in
    native | streams | roundup | pools | old_pools | graphs | expandable) unused "$case" ;;
    *) live "$case" VRAMSCOPE_STACKS=$stacks && exact "$case" ;;
    esac
    [ "$case" = expandable_reserve ] || back "$case" # its setting is nothing that an export has
    [ $stacks = off ] && stacks=python || stacks=off # by both ways of a report
done
expect_sql "SELECT value FROM meta WHERE key = 'torch_version'" 2.11.0+cu130
# blocks of expandable segments are cut to the request, so another policy's figure is of requests; it has the program's limit
"$V" whatif --policy=torch-native "$db" >"$run/text" 2>&1
grep -q "PyTorch limited to 500.0 MiB" "$run/text" && grep -q "requests as recorded, each in multiples of 512 B" "$run/text" || fail "$(cat "$run/text")"

# of the two variables the old one counts, even if it is empty
live split PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64 PYTORCH_ALLOC_CONF=max_split_size_mb:222
exact split
live native PYTORCH_CUDA_ALLOC_CONF= PYTORCH_ALLOC_CONF=max_split_size_mb:64
expect_sql "SELECT value FROM meta WHERE key IN ('torch_alloc_conf', 'torch_max_split_size') ORDER BY key" $'\n'-1
# and it may be set after torch's import
live split PYTORCH_ALLOC_CONF=max_split_size_mb:222 LATE_CONF=max_split_size_mb:64
exact split
expect_sql "SELECT value FROM meta WHERE key = 'torch_alloc_conf'" max_split_size_mb:64

# what PyTorch itself says, once it has memory, counts more than the environment
live split PYTORCH_ALLOC_CONF=max_split_size_mb:222 SAYS_CONF=max_split_size_mb:64
exact split
expect_sql "SELECT value FROM meta WHERE key LIKE 'torch\_%conf' ESCAPE '\'" max_split_size_mb:64
expect_sql "SELECT state FROM contract WHERE name = 'allocator_calls'" proven

# settings that no replay has are named, and those that are off or another memory's are not
strange="max_non_split_rounding_mb:40,throw_on_cudamalloc_oom:True,expandable_segments_reserve_by_class:[a:0.5,b:4G]"
others="pinned_use_cuda_host_register:True,graph_capture_record_stream_reuse:False,max_split_size_mb:64"
told="^  PyTorch's settings that a replay does not imitate: max_non_split_rounding_mb:40, throw_on_cudamalloc_oom:True, expandable_segments_reserve_by_class:\[a:0.5,b:4G\]\$"
live split PYTORCH_CUDA_ALLOC_CONF="$strange, $others"
grep -q "$told" "$run/text" || fail "settings that a replay does not know: $(cat "$run/text")"
exact split
sqlite3 "$db" "DELETE FROM meta WHERE key LIKE 'torch_%'"
"$V" whatif --policy=torch-native "$db" >"$run/text" 2>&1
grep -q "$told" "$run/text" || fail "such settings of the environment: $(cat "$run/text")"

# without Python nobody says the settings but the environment, as it was when the library was loaded
live split PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64 PYTORCH_ALLOC_CONF=max_split_size_mb:222
python_less="DELETE FROM meta WHERE key LIKE 'torch_%'"
sqlite3 "$db" "$python_less"
"$V" whatif --policy=torch-native "$db" >"$run/text" 2>&1
grep -q "^  PyTorch's settings from the environment: PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64$" "$run/text" || fail "no settings from the environment: $(cat "$run/text")"
"$V" whatif --json --policy=torch-native "$db" | grep -q '"settings_from_environment": *"max_split_size_mb:64"' || fail "no settings from the environment in JSON"
live native PYTORCH_CUDA_ALLOC_CONF=
sqlite3 "$db" "$python_less"
"$V" whatif --policy=torch-native "$db" >"$run/text" 2>&1
grep -q "^  PyTorch's settings from the environment: none, so the default ones$" "$run/text" || fail "no default settings: $(cat "$run/text")"
exact native
# the new name alone is not read before 2.10, and nobody says which version it was
live native PYTORCH_ALLOC_CONF=max_split_size_mb:64
sqlite3 "$db" "$python_less"
"$V" whatif --policy=torch-native "$db" 2>&1 | grep -q 'from the environment' && fail "a setting that an older PyTorch does not read"

# references that are bound at their first call
make -Wl,-z,lazy
live limit
exact limit
expect_sql "SELECT count(DISTINCT stream) FROM event WHERE op = 'block_alloc'" 3
expect_sql "SELECT count(*) > 0, count(*) < 500 FROM event WHERE op = 'event_done'" "1|1"

# without what was recorded the reason is said
without() { # SQL TEXT
    cp "$db" "$run/less.db"
    sqlite3 "$run/less.db" "$1" || fail "$1"
    "$V" whatif --policy=$policy "$run/less.db" >"$run/text" 2>&1
    grep -qF -- "$2" "$run/text" || fail "$1: not '$2': $(cat "$run/text")"
}
without "UPDATE kind SET stream = 0" "(the stream of some blocks is not known, and was taken as the default one)"
without "DELETE FROM meta WHERE key LIKE 'torch_max%'; DELETE FROM ev WHERE op IN (29, 37)" "(the allocator's settings are not recorded)"
without "UPDATE meta SET value = '2.19.0' WHERE key = 'torch_version'; DELETE FROM ev WHERE op = 37" "recorded with PyTorch 2.19.0"
echo ok
