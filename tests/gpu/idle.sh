#!/bin/bash
# idle.sh TREE OUT [PROGRAM...] - what the access ledger calls idle is idle: a training runs recorded, and again with the device's
# access taken from each block while that recording says that it is not used. The second run must end with the same losses and
# parameters to the last bit; a third, in which a block is taken one use too early, must die. TREE has the component "witness". Two
# minutes.
. "$(dirname "$0")/gpu.bash"
shift 2
programs=("$@")
[ ${#programs[@]} -gt 0 ] || programs=(mlp cnn vit gpt2 llama checkpoint gnn lstm graph ema)
plan=$here/../witness/plan.py
need
[ -f "$tree/lib/witness/libvramscope.so" ] || { echo "FAIL: no $tree/lib/witness/libvramscope.so"; exit 1; }
export PYTORCH_NO_CUDA_MEMORY_CACHING=1 CUBLAS_WORKSPACE_CONFIG=:4096:8
export VRAMSCOPE_STACKS=off VRAMSCOPE_ACCESS=on VRAMSCOPE_ALLOCATOR=arena OMP_NUM_THREADS=2

play() { # PROGRAM RUN [VARIABLE=VALUE]: stdout and stderr in $work/PROGRAM.RUN.*
    timeout 150 env LD_PRELOAD="$tree/lib/witness/libvramscope.so" VRAMSCOPE_OUTPUT="$work/$1.$2.db" WITNESS_LOG="$work/$1.$2.log" "${@:3}" \
        "$python" "$here/idle_programs.py" "$1" >"$work/$1.$2.out" 2>"$work/$1.$2.err"
}
why() { # PROGRAM RUN: its error, in few words
    { grep -i -e 'error' "$work/$1.$2.err" | grep -v '^ ' | head -n 3; tail -n 1 "$work/$1.$2.err"; } | cut -c 1-300
}

again() { # PROGRAM: whose results are other ones where access was taken; is it the same where none is?
    local n other=0
    for n in 4 5 6; do
        play "$1" $n || { echo "other results, and played again without protection it ended with $?: $(why "$1" $n)"; return; }
        cmp -s "$work/$1.1.out" "$work/$1.$n.out" || other=$((other + 1))
    done
    if [ $other = 0 ]; then echo "other results, and the same ones in three more runs without protection"; else echo "not the same program twice: $other of three more runs without protection have other results"; fi
}

judge() { # PROGRAM: its verdict on stdout
    local p=$1 module survived=''
    case $p in gpt2 | llama | checkpoint) module=transformers ;; cnn | vit | ema) module=torchvision ;; gnn) module=torch_geometric ;; *) module=torch ;; esac
    "$python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$module') is None)" || { echo "SKIP $p: no $module"; return; }
    play "$p" 1 || { echo "FAIL $p: the recorded run ended with $?: $(why "$p" 1)"; return; }
    "$python" "$plan" make "$work/$p.1.db" "$work/$p.1.log" "$work/$p.plan" >"$work/$p.says" 2>&1 || { echo "FAIL $p: $(tail -n 1 "$work/$p.says")"; return; }
    play "$p" 2 WITNESS_PLAN="$work/$p.plan"
    local status=$?
    [ $status = 0 ] || { echo "FAIL $p: with idle blocks taken away it ended with $status: $(why "$p" 2)"; return; }
    cmp -s "$work/$p.1.out" "$work/$p.2.out" || { echo "FAIL $p: $(again "$p"); $(cut -c 1-150 "$work/$p.1.out") | $(cut -c 1-150 "$work/$p.2.out")"; return; }
    "$python" "$plan" same "$work/$p.1.log" "$work/$p.2.log" >"$work/$p.same" 2>&1 || { echo "FAIL $p: $(tail -n 1 "$work/$p.same")"; return; }
    for n in 1 2 3; do # a use may be seen that did not happen: then the program survives, and the next is taken
        "$python" "$plan" make "$work/$p.1.db" "$work/$p.1.log" "$work/$p.planted" $n >"$work/$p.plants" 2>&1 || { echo "FAIL $p: $(tail -n 1 "$work/$p.says"); $(tail -n 1 "$work/$p.plants")"; return; }
        play "$p" 3 WITNESS_PLAN="$work/$p.planted"
        status=$?
        [ $status = 0 ] || break
        survived+="$(head -n 1 "$work/$p.plants" | cut -c 1-90): survived; "
    done
    if [ $status = 0 ] || ! grep -q -i -e 'illegal memory access' -e 'illegal_address' -e 'illegal address' "$work/$p.3.err"; then
        echo "FAIL $p: one use too early, and it ended with $status: $survived$(head -n 1 "$work/$p.plants") $(why "$p" 3)"
        return
    fi
    echo "PASS $p: $(tail -n 1 "$work/$p.says"); $(grep -o 'access taken.*' "$work/$p.2.err"); the same results; $survived$(head -n 1 "$work/$p.plants" | cut -c 1-90): died with $status"
}

for p in "${programs[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-6}" ]; do sleep 0.2; done
    judge "$p" >"$work/$p.verdict" 2>"$work/$p.shell" &
done
wait
for p in "${programs[@]}"; do cat "$work/$p.verdict"; done | tee "$out/idle.txt"
passed=$(grep -c '^PASS' "$out/idle.txt") failed=$(grep -c '^FAIL' "$out/idle.txt")
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -ge 8 ]
