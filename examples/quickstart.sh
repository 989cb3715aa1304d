#!/bin/bash
# quickstart.sh - from a fresh checkout to a memory report and a plot, in one command.
#
#   ./examples/quickstart.sh
#
# Installs what is missing, builds, trains the small language model of examples/train_lm.c under vramscope twice, with
# the loss as frameworks compute it and with the fused one of kernels/, prints the report of the first and the two beside
# each other, and draws both curves.  Uses the GPU where there is one, else the simulated driver: then no figure here says
# anything about a GPU.  Each time gets a directory of its own below build/quickstart.
set -euo pipefail
cd "$(dirname "$0")/.."

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

if has_gpu; then
    echo "quickstart: a GPU is here"
else
    echo "quickstart: no GPU here: using the SIMULATED driver (host memory, computing on the CPU); no figure below is a GPU's"
fi

want=build
if has_gpu; then
    want=gpu
fi
include=$(scripts/setup.sh $want | sed -n 's/^CUDA_INCLUDE_DIR=//p')
[ -n "$include" ] || exit 1
echo "quickstart: building"
scripts/build.sh release "$include"
bin=build/release/bin
if [ -e build/deps/cuda/lib/libcublasLt.so.13 ]; then
    export LCE_CUBLASLT=${LCE_CUBLASLT:-$PWD/build/deps/cuda/lib/libcublasLt.so.13}
fi

workload=(--batch 1024 --hidden 64 --vocab 4096 --rate 0.005 --steps 30)
if has_gpu && device=$($bin/train_lm --device); then
    echo "quickstart: training on $device"
    workload=(--batch 4096 --hidden 1024 --context 16 --vocab 32768 --rate 0.001 --steps 40)
else
    if has_gpu; then
        echo "quickstart: the GPU can't be used (the line above says why): using the SIMULATED driver instead"
    fi
    export LD_LIBRARY_PATH=$PWD/build/release/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi

# The fused loss wants more of a GPU than the example's own kernels: cuBLASLt, and Hopper or later.
losses=(naive fused)
if ! why=$($bin/train_lm --device --loss fused 2>&1 >/dev/null); then
    echo "quickstart: the naive loss alone, as the fused one can't be had here: $(tail -n 1 <<<"$why")"
    losses=(naive)
fi

out=$(new_directory)
for loss in "${losses[@]}"; do
    $bin/vramscope run -o "$out/$loss.db" -- $bin/train_lm "${workload[@]}" --loss "$loss" LICENSE
done
echo
$bin/vramscope report "$out/naive.db"
$bin/vramscope plot "$out/naive.db" -o "$out/memory.png"

if [ ${#losses[@]} = 2 ]; then
    printf '\nThe same training with its loss fused, so that the logits never exist in full (B):\n\n'
    $bin/vramscope diff "$out/naive.db" "$out/fused.db" | tee "$out/diff.txt"
    $bin/vramscope plot --overlay "$out/naive.db" "$out/fused.db" -o "$out/losses.png"
    printf '\nquickstart: %s\n' "$(sed -n 's/^  \(the phase that changed most\)/\1/p' "$out/diff.txt")"
fi

cat <<END

database  $out/naive.db        sqlite3 $out/naive.db 'SELECT phase, allocated_bytes FROM phase_peak'
plot      $out/memory.png
END
if [ ${#losses[@]} = 2 ]; then
    printf 'database  %s/fused.db\nplot      %s/losses.png       both runs\n' "$out" "$out"
fi
cat <<END
command   $bin/vramscope       try: $bin/vramscope peak $out/naive.db
library   build/release/lib/libvramscope.so       LD_PRELOAD it into any CUDA program
END
