#!/usr/bin/env bash
# answers.sh TREE OUT - the recordings behind README's picture and docs/answers.md: answers/train.py, recorded in six ways (NAME.db,
# NAME.log), and PyTorch's own snapshot of it. TREE needs the loss's kernels, the GPU 139 GiB; two minutes. ANSWERS_PARTS: these runs
# alone.
. "$(dirname "$0")/gpu.bash"
need transformers
cd "$here/answers" || exit 1

# recorded NAME STATUS [run's options] -- [train.py's options]
recorded() {
    local name=$1 wanted=$2 how=() got
    shift 2
    while [ "$1" != -- ]; do how+=("$1") && shift; done
    rm -f "$out/$name".db*
    timeout 120 "$V" run "${how[@]}" -o "$out/$name.db" -- "$python" train.py "${@:2}" >"$out/$name.log" 2>&1
    got=$?
    [ $got = "$wanted" ] || { echo "FAIL $name: status $got, not $wanted"; tail -n 5 "$out/$name.log"; failed=1; }
    echo "$name: $(grep 'peaks by PyTorch' "$out/$name.log"); $(tail -n 1 "$out/$name.log")"
}

for part in ${ANSWERS_PARTS:-train access oom fused expandable snapshot}; do
    case $part in
    train)
        nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 50 >"$out/smi" &
        smi=$!
        recorded train 0 --
        kill $smi
        echo "nvidia-smi saw at most $(sort -n "$out/smi" | tail -n 1) MiB used"
        rm -f "$out/smi"
        ;;
    access) recorded access 0 --access -- ;;
    oom) recorded oom 1 --access -- --lengths 1024,16384,20480,24576,28672 ;;
    fused) PYTHONPATH=$tree/share/vramscope/python recorded fused 0 -- --fused ;;
    expandable) PYTORCH_ALLOC_CONF=expandable_segments:True recorded expandable 0 -- ;;
    snapshot) timeout 120 "$python" train.py --snapshot "$out/snapshot.pickle" >"$out/snapshot.log" 2>&1 || { tail -n 5 "$out/snapshot.log"; failed=1; } ;;
    esac
done
exit $failed
