#!/bin/bash
# quickstart.sh - from a fresh checkout to a memory report and a plot, in one command.
#
#   ./examples/quickstart.sh
#
# Installs what is missing, builds, trains the small language model of examples/train_lm.c under vramscope, prints
# the report and draws the plot.  Uses the GPU where there is one, else the simulated driver: then no figure here says
# anything about a GPU.  Each run gets a directory of its own below build/quickstart.
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

include=$(scripts/setup.sh build | sed -n 's/^CUDA_INCLUDE_DIR=//p')
[ -n "$include" ] || exit 1
echo "quickstart: building"
scripts/build.sh release "$include"
bin=build/release/bin

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

out=$(new_directory)
$bin/vramscope run -o "$out/run.db" -- $bin/train_lm "${workload[@]}" LICENSE
echo
$bin/vramscope report "$out/run.db"
$bin/vramscope plot "$out/run.db" -o "$out/memory.png"

cat <<END

database  $out/run.db        sqlite3 $out/run.db 'SELECT phase, allocated_bytes FROM phase_peak'
plot      $out/memory.png
command   $bin/vramscope       try: $bin/vramscope peak $out/run.db
library   build/release/lib/libvramscope.so       LD_PRELOAD it into any CUDA program
END
