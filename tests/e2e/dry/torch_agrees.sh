#!/bin/bash
# The recording of a real PyTorch on the simulated driver has every counter, history entry, block, segment and role that PyTorch and the program
# know.  A replay under the other policy reserves what a run under it did, to the byte.  Snapshots imported and exported say the same.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
find_torch
unset LD_LIBRARY_PATH # what a dry run stands on is found without it

# agrees NAME OPTION...: status 1 says that memory ran out
agrees() {
    run=$dir/$1 db=$dir/$1/run.db
    mkdir "$run" && cd "$run" || exit 1
    timeout --kill-after=1 300 "$V" fit --steps=all --keep-writes=kept -o run.db "${@:2}" -- "$python" "$here/torch_agrees.py" facts >out 2>err </dev/null
    status=$?
    [ "$status" -le 1 ] || fail "$1: status $status"
    mv "kept$run"/facts* . || fail "$1: the program said nothing"
    files=()
    [ "$1" != native ] || {
        files=(exported.pickle imported.db)
        "$V" export --format=pytorch -o exported.pickle run.db 2>said && "$V" import -o imported.db facts.pickle >said 2>&1 || fail "$1: $(cat said)"
    }
    python3 "$here/torch_agrees_check.py" facts run.db "${files[@]}" >said || fail "$1: $(cat said)"
    echo "$1: $(cat said)"
}
# whatif POLICY DATABASE: what it would have reserved
whatif() { "$V" whatif --policy="$1" --json "$2" | python3 -c 'import json, sys; print(json.load(sys.stdin)["devices"][0]["policies"][0]["reserved_bytes"])'; }
exact() {
    "$V" whatif --policy="$1" "$2" >said 2>&1
    ! grep -q "(of private pools not every request is known to be theirs, nor whether one splits its segments)" said || [ "$(ask "SELECT substr(value, 1, 4) FROM meta WHERE key = 'torch_version'")" != 2.4. ] || return 0
    grep -qE "^  $1: exact: ([0-9]+) of \1 addresses and ([0-9]+) of \2 segment events as recorded" said || fail "replay of $2: $(cat said)"
}

export PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.75
agrees native
unset PYTORCH_CUDA_ALLOC_CONF
exact torch-native run.db
agrees expandable --expandable
exact torch-expandable run.db
for pair in "native expandable" "expandable native"; do
    read -r one other <<<"$pair"
    most=$(python3 -c 'import json; print(max(f[4] for f in json.load(open("'"$dir/$other"'/facts"))["figures"]))')
    said=$(whatif "torch-$other" "$dir/$one/run.db")
    [ "$said" = "$most" ] || fail "recorded $one, a replay reserves $said under $other, which reserved $most"
done
! in_full || ! has_arena || agrees arena --allocator=arena
echo "PyTorch $("$python" -c 'from importlib.metadata import version; print(version("torch"))') and the recording agree"
