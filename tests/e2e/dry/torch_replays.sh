#!/bin/bash
# Replays of what a real PyTorch's allocator did get each address that it got, and ask the driver what it asked, under several settings.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
find_torch
export COLUMNS=2000 # a sentence is a line

# exact POLICY FRACTION SETTINGS
exact() {
    shim_env=(PYTORCH_CUDA_ALLOC_CONF="$3" VRAMSCOPE_AUTO_PHASES=off VRAMSCOPE_STACKS=off)
    recorded "$python" "$here/torch_replays.py" 8000 "$2"
    [ "$status" = 0 ] || fail "'$3', $2: exit status $status"
    "$BUILD/bin/vramscope" whatif --policy="$1" "$db" >"$run/said" 2>&1
    grep -qE "^  $1:( up to the refused request)?( fits after [^;]*;)? exact: ([0-9]{4,}) of \3 addresses and ([0-9]+) of \4 segment events as recorded" "$run/said" ||
        fail "'$3', $2: $(cat "$run/out" "$run/said")"
    echo "'$3', at most $2 of the memory: $(cat "$run/out"): $(grep -o 'exact: .*' "$run/said")"
}
exact torch-native 0 ''
exact torch-native 0.006 max_split_size_mb:24
exact torch-native 0.006 garbage_collection_threshold:0.6
exact torch-expandable 0.006 expandable_segments:True
