#!/bin/bash
# quickstart.sh - from a fresh checkout to a memory report and a plot, in one command.
#
#   ./examples/quickstart.sh
#
# Part 1 builds what it needs in build/quick, trains examples/train_lm.c under vramscope and prints the report; part 2 trains it with the
# fused loss of kernels/, and shows what that changed.  Without a GPU it runs on the simulated driver: then no figure says anything about
# a GPU.  Each time gets a directory of its own below build/quickstart.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=build/quick/bin

say() { printf 'quickstart: %3d s  %s\n' "$SECONDS" "$*"; }

has_gpu() {
    [ -e /dev/nvidiactl ] || [ -e /dev/dxg ] || { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }
}

new_directory() {
    local number=1
    mkdir -p build/quickstart
    until mkdir "$(printf 'build/quickstart/run-%03d' $number)" 2>/dev/null; do
        number=$((number + 1))
        if [ $number -gt 999 ]; then
            echo "quickstart: build/quickstart is full or not writable; remove old runs" >&2
            exit 1
        fi
    done
    printf 'build/quickstart/run-%03d' $number
}

# followed LOG COMMAND...: runs it, and shows where it is: by a line that changes on a terminal, every ten seconds elsewhere.
# What it prints goes to LOG; ninja's "[12/240]" in BUILD's log is what is shown.
followed() {
    local log=$1 job at shown=$SECONDS
    shift
    "$@" &
    job=$!
    while kill -0 $job 2>/dev/null; do
        sleep 0.5
        at=$(tail -c 400 "$log" 2>/dev/null | grep -oE '^\[[0-9]+/[0-9]+\]' | tail -n 1 || true)
        if [ -t 1 ]; then
            printf '\rquickstart: %3d s  building %s   ' "$SECONDS" "$at"
        elif [ $((SECONDS - shown)) -ge 10 ]; then
            say "building $at"
            shown=$SECONDS
        fi
    done
    [ ! -t 1 ] || printf '\r\033[K'
    wait $job
}

# ---- part 1: a report ----

want=build kernels=OFF
if has_gpu; then
    want=gpu kernels=ON
    say "part 1 of 2: set up, build, train, report. A GPU is here: its kernels are built too, which takes two minutes more"
else
    say "part 1 of 2: set up, build, train, report. No GPU here: using the SIMULATED driver (host memory, computing on the CPU);"
    say "no figure below is a GPU's"
fi
say "packages and CUDA's headers: a second where they are there, usually a minute or two where they are to be fetched"
include=$(scripts/setup.sh $want | sed -n 's/^CUDA_INCLUDE_DIR=//p')
[ -n "$include" ] || exit 1
say "building in build/quick: usually half a minute on two cores, a second where that was done before"
mkdir -p build/quick
rm -f build/quick/build.log
followed build/quick/build.log env BUILD_DIR=build/quick scripts/build.sh quick "$include" "-DVRAMSCOPE_KERNELS=$kernels"
if [ -e build/deps/cuda/lib/libcublasLt.so.13 ]; then
    export LCE_CUBLASLT=${LCE_CUBLASLT:-$PWD/build/deps/cuda/lib/libcublasLt.so.13}
fi

workload=(--batch 512 --hidden 64 --vocab 4096 --rate 0.01 --steps 10)
if has_gpu && device=$($bin/train_lm --device); then
    say "training on $device: some seconds"
    workload=(--batch 4096 --hidden 1024 --context 16 --vocab 32768 --rate 0.001 --steps 40)
else
    if has_gpu; then
        say "the GPU can't be used (the line above says why): using the SIMULATED driver instead"
    fi
    say "training on the simulated driver: some seconds"
    export LD_LIBRARY_PATH=$PWD/build/quick/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi

out=$(new_directory)
$bin/vramscope run -o "$out/naive.db" -- $bin/train_lm "${workload[@]}" --loss naive LICENSE
echo
$bin/vramscope report "$out/naive.db"
$bin/vramscope plot "$out/naive.db" -o "$out/memory.png"
cat <<END

database  $out/naive.db        sqlite3 $out/naive.db 'SELECT phase, allocated_bytes FROM phase_peak'
plot      $out/memory.png
END
say "part 1 is done"

# ---- part 2: what the fused loss changes; it wants more of a GPU than the example's own kernels: cuBLASLt, and Hopper or later ----

if why=$($bin/train_lm --device --loss fused 2>&1 >/dev/null); then
    say "part 2 of 2: the same training with its loss fused, so that the logits never exist in full (B): some seconds"
    $bin/vramscope run -o "$out/fused.db" -- $bin/train_lm "${workload[@]}" --loss fused LICENSE
    echo
    $bin/vramscope diff "$out/naive.db" "$out/fused.db" | tee "$out/diff.txt"
    $bin/vramscope plot --overlay "$out/naive.db" "$out/fused.db" -o "$out/losses.png"
    printf '\ndatabase  %s/fused.db\nplot      %s/losses.png       both runs\n' "$out" "$out"
    printf 'quickstart: %s\n' "$(sed -n 's/^  \(the phase that changed most\)/\1/p' "$out/diff.txt")"
else
    say "no part 2: the naive loss alone, as the fused one can't be had here: $(tail -n 1 <<<"$why")"
fi

where=
has_gpu || where=", where a GPU is"
say "done. Your own program$where: $bin/vramscope run -o run.db -- python train.py && $bin/vramscope report run.db"
