#!/bin/bash
# suspend.sh TREE OUT - memory that goes away while it lives: it comes back word for word, the device is left to others meanwhile, and it
# moves as fast as the link.
#
#     c        tests/e2e/arena/prog_cycles.c on the GPU: whatever needs the memory brings it back, and what cannot be is refused by name
#     stress   arena_stress.c, which checks each word: suspended and resumed as often as it goes, at moments that it knows nothing of
#     sanitizer    both under compute-sanitizer: no access to memory that is not there. Refused calls are not reported: by one it is found where a
#              kernel's parameters end
#     cycles, rate, left, outside, killed, nccl: suspend.py
#
# SUSPEND_PARTS: these alone.  SIMULATED=1: on TREE's simulated driver, reduced; PyTorch's parts need TEST_PYTHON there.  Else it needs gcc,
# cuda.h (CUDA_INCLUDE), a GPU that nobody else uses, and 40 GiB of the host's memory; 9 minutes.  Ends with "N passed, N failed".
. "$(dirname "$0")/gpu.bash"
parts=" ${SUSPEND_PARTS:-c stress sanitizer cycles left rate outside killed nccl} "
under=() options=(--allocator=arena) driver=-l:libcuda.so.1
if [ -n "${SIMULATED:-}" ]; then
    export SIMULATED LD_LIBRARY_PATH=$tree/lib/vramscope/sim
    options+=(--simulated) driver=$tree/lib/vramscope/sim/libcuda.so.1
else
    need
fi
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$tree/share/vramscope/python
unset LD_PRELOAD PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING
until=$((SECONDS + ${SUSPEND_SECONDS:-560}))
most() { echo $((until - SECONDS > $1 ? $1 : until > SECONDS ? until - SECONDS : 1)); } # SECONDS at the most
has() { case $parts in *" $1 "*) ;; *) return 1 ;; esac; }

# away EXPECTED ALLOCATOR PART...: prog_cycles's output has EXPECTED
away() {
    local expected=$1 status
    shift
    timeout -k 5 "$(most 60)" "${under[@]}" "$V" run -q -f -o "$work/away.db" "${options[@]}" "--allocator=$1" -- "$work/prog_cycles" "${@:2}" >"$work/away.log" 2>&1
    status=$?
    [ $status = 0 ] && grep -qF -- "$expected" "$work/away.log"
    verdict $? "${under[0]:+under ${under[0]##*/}: }prog_cycles ${*:2} ($1): status $status: $(tail -n 1 "$work/away.log" | cut -c1-160)"
}
in_c() {
    local lib=$here/../e2e/lib include=$tree/include
    gcc -std=gnu11 -O1 -I"${CUDA_INCLUDE:-/usr/local/cuda/include}" -I"$lib" -I"$include" "$here/../e2e/arena/prog_cycles.c" -o "$work/prog_cycles" \
        -ldl -lpthread "$driver" || { fail "prog_cycles.c does not build" && return; }
    away '96 cycles' arena cycles 96
    away 'blocks are exported to other processes' arena exported
    away 'does not run under the arena' off refused
}
# stressed BY OPTION...
stressed() {
    local by=$1 pid status times=0 small=(--seconds 20 --largest 256 --live 2048)
    shift
    [ -z "${SIMULATED:-}" ] || small=(--seconds 6 --largest 8 --live 128 --threads 3)
    rm -f "$work/stress.db"
    timeout -k 5 "$(most 90)" "${under[@]}" "$V" run -q -f -o "$work/stress.db" "${options[@]}" "$@" -- "$work/arena_stress" --by "$by" "${small[@]}" >"$work/stress-$by.log" 2>&1 &
    pid=$!
    while kill -0 $pid 2>/dev/null; do
        "$V" suspend "$work/stress.db" >/dev/null 2>>"$work/suspends-$by.log" && times=$((times + 1))
        "$V" resume "$work/stress.db" >/dev/null 2>>"$work/suspends-$by.log"
    done
    wait $pid
    status=$?
    [ $status = 0 ] && [ $times -ge 5 ] && grep -q "every word was right" "$work/stress-$by.log"
    verdict $? "${under[0]:+under ${under[0]##*/}: }arena_stress --by $by${*:+ $*}, suspended $times times: status $status: $(tail -n 1 "$work/stress-$by.log" | cut -c1-160)"
}
under_stress() {
    gcc -std=gnu11 -O2 -I"${CUDA_INCLUDE:-/usr/local/cuda/include}" -I"$here" "$here/arena_stress.c" -o "$work/arena_stress" -lpthread "$driver" ||
        { fail "arena_stress.c does not build" && return; }
    stressed driver
    stressed torch --access
}
under_sanitizer() {
    local sanitizer
    sanitizer=$(PATH=$PATH:/usr/local/cuda/bin:/opt/nvidia/nsight-compute/compute-sanitizer command -v compute-sanitizer) ||
        { skip "compute-sanitizer is not there" && return; }
    under=("$sanitizer" --target-processes all --report-api-errors no --error-exitcode 9)
    in_c
    under_stress
    under=()
}
# start NAME SECONDS [ARGUMENT]: suspend.py's part, in the background; told NAME: its lines, when it has ended
start() {
    { timeout -k 5 "$(most "$2")" "$python" "$here/suspend.py" "$1" "$tree" "$work" "${@:3}" >"$work/$1.log" 2>&1; echo $? >"$work/$1.status"; } &
    started=$SECONDS
}
told() {
    local line
    wait
    echo "--- $1 ($((SECONDS - started)) s)"
    while IFS= read -r line; do
        case $line in
        PASS*) passed=$((passed + 1)) ;;
        FAIL*) failed=$((failed + 1)) ;;
        SKIP*) skipped=$((skipped + 1)) ;;
        esac
        echo "$line"
    done <"$work/$1.log"
    [ "$(cat "$work/$1.status")" -le 1 ] || fail "$1: status $(cat "$work/$1.status")"
    grep -q '^PASS\|^FAIL' "$work/$1.log" || [ "$1" = nccl ] || fail "$1 shows nothing" # that without a NCCL that can
    keep
}
keep() { find "$work" -name '*.log' -printf '%P\n' -o -name '*.stderr' -printf '%P\n' | tar -C "$work" -czf "$out/suspend.tgz" -T -; }

has c && { in_c; keep; }
has stress && { under_stress; keep; }
has sanitizer && { under_sanitizer; keep; }
# nothing of these two is timed: side by side
has cycles && start cycles 300 230
has left && start left 200
has cycles && told cycles
has left && told left
has rate && start rate 170 80 && told rate
has outside && start outside 200 && told outside
has killed && start killed 120 && told killed
has nccl && start nccl 120 && told nccl
echo "took $SECONDS s"
counted
