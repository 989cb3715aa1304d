#!/bin/bash
# arena_bench.sh TREE OUT - the arena measured on a GPU, and memory under it checked word by word.
#
#     stress   kernels fill and check every block: without the arena, with it, as PyTorch allocates; reuse that is planted must be found
#     tensors  the same with PyTorch's tensors and record_stream
#     pairs    what an allocation and its free cost the host
#     table    one training under each allocator
#     sweep    peaks and speed over sequence lengths: sweep.tsv, which scripts/arena_sweep_plot.sh draws
#
# ARENA_PARTS: these alone. ARENA_SECONDS: for everything (560). Needs gcc, g++, CUDA's headers, transformers. DRIVER=DIR (the
# simulated driver) and QUICK=1: the C parts alone, tiny.
. "$(dirname "$0")/gpu.bash"
parts=" ${ARENA_PARTS:-stress tensors pairs table sweep} "
limit=${ARENA_SECONDS:-560}
find_driver
cuda=${CUDA_HOME:-/usr/local/cuda}
[ -d "$cuda" ] || cuda=$(dirname "$(dirname "$(realpath "$(command -v nvcc)")")")
include=${CUDA_INCLUDE:-$cuda/include}
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
unset LD_PRELOAD PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING

wanted() { case $parts in *" $1 "*) [ $SECONDS -lt "$limit" ] ;; *) return 1 ;; esac; }
left() { echo $((limit - SECONDS > $1 ? $1 : limit > SECONDS ? limit - SECONDS : 1)); }

arena() { with=(env VRAMSCOPE_STACKS=off LD_PRELOAD="$shim" VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_OUTPUT="$work/%p.db" "$@"); }

# judged NAME STATUS SECONDS COMMAND...: it must end with STATUS; its output's last lines are shown.
judged() {
    local name=$1 wanted=$2 seconds=$3 status start=$SECONDS
    shift 3
    timeout --kill-after=5 "$(left "$seconds")" "$@" >"$out/$name.log" 2>&1
    status=$?
    if [ $status = "$wanted" ]; then
        echo "ok    $name ($((SECONDS - start)) s)"
    else
        echo "FAIL  $name: status $status, not $wanted ($((SECONDS - start)) s)"
        failed=1
    fi
    grep -v '^simcuda:' "$out/$name.log" | tail -n 4 | sed 's/^/      /'
}

# recorded NAME: what the one recording in the work folder says, and it goes.
recorded() {
    if command -v python3 >/dev/null; then
        python3 "$here/arena_recorded.py" "$work"/*.db >"$out/$1.recorded" 2>&1 || echo "FAIL  $1: the recording cannot be read"
        sed 's/^/      /' "$out/$1.recorded" | cut -c1-400
    fi
    rm -f "$work"/*.db
}

build() { "${CC:-gcc}" -std=gnu11 -O2 -I"$include" -o "$work/$1" "$here/$1.c" "$driver" -lpthread; }

stress() {
    local seconds=${QUICK:+1} planted=4 small=() free
    # what is planted must come to pass: it ends by its number of operations, however busy the machine is
    [ -z "${QUICK:-}" ] || { small=(--largest 8 --live 128 --threads 2 --ops 1500) && planted=20; }
    build arena_stress || { echo "FAIL  arena_stress.c does not build" && failed=1 && return; }
    judged stress-driver 0 60 "$work/arena_stress" --seconds "${seconds:-8}" "${small[@]}"
    for free in wait defer; do
        arena VRAMSCOPE_ARENA_FREE=$free
        judged "stress-$free" 0 90 "${with[@]}" "$work/arena_stress" --seconds "${seconds:-12}" --seed 2 "${small[@]}"
        recorded "stress-$free"
    done
    arena
    if [ -z "${DRIVER:-}" ] || grep -q vramscope_torch_record_stream "$shim"; then
        judged stress-torch 0 90 "${with[@]}" "$work/arena_stress" --by torch --seconds "${seconds:-12}" --seed 3 "${small[@]}"
        recorded stress-torch
        [ -n "${DRIVER:-}" ] || judged stress-torch-planted-race 1 60 "${with[@]}" "$work/arena_stress" --by torch --seconds 4 --plant race
    fi
    arena VRAMSCOPE_ARENA_FREE=defer
    judged stress-planted-late 1 60 "${with[@]}" "$work/arena_stress" --seconds $planted --plant late "${small[@]}"
    # where nothing is asynchronous it is no race
    [ -n "${DRIVER:-}" ] || judged stress-planted-race 1 60 "${with[@]}" "$work/arena_stress" --seconds 4 --plant race
    rm -f "$work"/*.db
}

tensors_one() { # tensors_one NAME STATUS CONFIGURATION [arena_stress.py's options]
    local name=$1 status=$2 config=$3
    shift 3
    timeout --kill-after=5 "$(left 90)" python3 "$here/arena_worker.py" "$tree" "$config" "$work/$name.db" "$here/arena_stress.py" "$@" >"$out/tensors-$name.log" 2>&1
    echo "$? $status" >"$work/$name.status"
}

# Two at a time share the GPU: nothing is timed.  More would not fit, for what was freed late is held until then.
tensors() {
    local name status wanted
    tensors_one native 0 native &
    tensors_one planted-native 1 native --plant --seconds 8 &
    wait
    tensors_one arena 0 arena --seed 2 &
    tensors_one planted-arena 1 arena --plant --seconds 8 &
    wait
    tensors_one nocache-arena 0 nocache-arena --seed 3
    for name in native arena nocache-arena planted-native planted-arena; do
        read -r status wanted <"$work/$name.status"
        if [ "$status" = "$wanted" ]; then echo "ok    tensors-$name"; else echo "FAIL  tensors-$name: status $status, not $wanted" && failed=1; fi
        tail -n 3 "$out/tensors-$name.log" | sed 's/^/      /'
    done
    rm -f "$work"/*.db
}

pair() { # pair NAME SECONDS HOW COMMAND...
    echo "$1"
    timeout --kill-after=5 40 "${@:4}" "$work/arena_pairs" "$3" "${rounds:-5}" "$2" "$most" 2>&1 | grep -v '^simcuda:' | sed 's/^/   /'
    rm -f "$work"/*.db
}

pairs() {
    local seconds=${QUICK:+0.1} rounds=${QUICK:+1} most=0
    build arena_pairs || { echo "FAIL  arena_pairs.c does not build" && failed=1 && return; }
    {
        pair "cuMemAllocAsync and cuMemFreeAsync, the driver's" "${seconds:-3}" async env
        arena
        most=80000 # two events each: the ring holds them
        pair "the same, served by the arena, recorded" "${seconds:-3}" async "${with[@]}"
        most=0
        arena VRAMSCOPE_ENABLED=off
        pair "the same, served by the arena, not recorded" "${seconds:-3}" async "${with[@]}"
        pair "vramscope_torch_malloc and vramscope_torch_free, not recorded" "${seconds:-3}" torch "${with[@]}"
        arena
        most=80000
        pair "the same, recorded" "${seconds:-3}" torch "${with[@]}"
        most=0
        if [ -z "${QUICK:-}" ]; then
            pair "cuMemAlloc and cuMemFree, the driver's" 2 plain env
            arena VRAMSCOPE_ENABLED=off VRAMSCOPE_ARENA_FREE=defer
            pair "the same, served by the arena, not waiting, not recorded" 2 plain "${with[@]}"
            echo "PyTorch's caching allocator, without Python"
            timeout --kill-after=5 60 python3 "$here/arena_pairs.py" 5 3 2>&1 | sed 's/^/   /'
        fi
    } | tee "$out/pairs.txt"
}

python_part() { # python_part NAME SECONDS [OPTIONS of arena_NAME.py]
    wanted "$1" || return
    timeout --kill-after=5 "$(left "$2")" python3 "$here/arena_$1.py" "$tree" "$out" "${@:3}" 2>&1 | tee "$out/$1.out"
    [ "${PIPESTATUS[0]}" = 0 ] || { echo "FAIL  $1" && failed=1; }
}

wanted stress && stress
wanted pairs && pairs
if [ -z "${DRIVER:-}" ]; then
    python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
        echo "SKIP  tensors, table, sweep: no PyTorch for python3"
        exit $failed
    }
    wanted tensors && tensors
    python_part table 260 --seconds "$(left 190)"
    python_part sweep 260 --seconds "$(left 190)"
fi
echo "took $SECONDS s"
exit $failed
