#!/bin/bash
# arena_recording.sh TREE OUT - what is recorded of programs that the arena serves, on a GPU: every byte once, to the byte.
#
# TREE: an installed vramscope.  OUT: folder for reports and logs (the databases are not kept).  A training program on the driver's
# API, PyTorch's caching allocator on top of the arena, PyTorch without a cache, PyTorch with the arena in the place of its
# allocator, and one that is killed: each has the output of the run that the driver served, and arena_recording.py's checks.
# About 80 s.  Ends with "N passed, N failed"; exit 77 without a GPU.
python=python3
. "$(dirname "$0")/gpu.bash"
need
export PYTHONDONTWRITEBYTECODE=1
shim() { # NAME COMMAND...: under the library alone, served by the arena
    local name=$1
    shift
    VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_OUTPUT=$work/$name.db LD_PRELOAD=$tree/lib/libvramscope.so timeout 60 "$@" >"$work/$name.out" 2>"$out/$name.err"
    echo $? >"$work/$name.status"
}
holds() { # NAME [FACTS] [OPTION...]
    local name=$1
    shift
    python3 "$here/arena_recording.py" "$work/$name.db" "$@"
    verdict $? "$name: the recording"
    "$tree/bin/vramscope" report --all "$work/$name.db" >"$out/$name.report.txt" 2>&1
    sed -n '/^  arena/,/^$/p' "$out/$name.report.txt"
}
same() { # NAME: output and status as where the driver served
    cmp "$work/plain.out" "$work/$1.out" && cmp "$work/plain.status" "$work/$1.status"
    verdict $? "$1: output and exit status"
}
torch=(python3 "$here/train_transformer.py" --steps 6)

lm=("$tree/bin/train_lm" --batch 4096 --hidden 1024 --vocab 32768 --steps 20 "$tree/share/vramscope/LICENSE")
VRAMSCOPE_OUTPUT=$work/lm_driver.db LD_PRELOAD=$tree/lib/libvramscope.so timeout 60 "${lm[@]}" >"$work/lm_driver.out" 2>"$out/lm_driver.err"
shim lm "${lm[@]}"
holds lm --like "$work/lm_driver.db"
echo "after $SECONDS s"

timeout 60 "${torch[@]}" --facts "$work/plain.json" >"$work/plain.out" 2>"$out/plain.err"
echo $? >"$work/plain.status"
shim cached "${torch[@]}" --facts "$work/cached.json"
same cached
holds cached "$work/cached.json"
echo "after $SECONDS s"

export PYTORCH_NO_CUDA_MEMORY_CACHING=1 VRAMSCOPE_ARENA_FREE=defer
shim uncached "${torch[@]}"
same uncached
holds uncached
unset PYTORCH_NO_CUDA_MEMORY_CACHING VRAMSCOPE_ARENA_FREE
echo "after $SECONDS s"

if "$tree/bin/vramscope" run --help | grep -q -- --allocator; then
    timeout 60 "$tree/bin/vramscope" run --allocator=arena -o "$work/placed.db" -- "${torch[@]}" --facts "$work/placed.json" \
        >"$work/placed.out" 2>"$out/placed.err"
    echo $? >"$work/placed.status"
    same placed
    holds placed "$work/placed.json"
    echo "after $SECONDS s"
fi

shim killed "${torch[@]}" --kill 4
"$tree/bin/vramscope" recover "$work/killed.db" >"$out/killed.recover" 2>&1
[ "$(cat "$work/killed.status")" = 137 ]
verdict $? "killed: died of SIGKILL"
holds killed
"$tree/bin/vramscope" doctor >"$out/doctor.txt" 2>&1
grep arena "$out/doctor.txt"
verdict $? "doctor speaks of the arena"
echo "$passed passed, $failed failed, $SECONDS s"
[ $failed = 0 ]
