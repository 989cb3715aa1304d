#!/bin/bash
# arena_driver.sh TREE OUT - the arena beside the real driver: the same answers (answers.c), memory shared with a process that has the
# arena or not (ipc.c), captures, a full device, a reset (life.c); and the fact about the device that the arena rests on (aliases.c).
#
# Needs gcc and CUDA's headers (CUDA_HOME); DRIVER=DIR: a folder with another libcuda.so.1 (the simulated one). A minute.
. "$(dirname "$0")/gpu.bash"
here=$here/arena
cd "$out" || exit 2
include=${CUDA_HOME:-/usr/local/cuda}/include
find_driver
[ -f "$shim" ] || { echo "SKIP: no $shim"; exit 77; }

# run NAME ENV... -- COMMAND...: its output in NAME.out
run() {
    local name=$1 began=$SECONDS env=()
    shift
    while [ "$1" != -- ]; do env+=("$1"); shift; done
    shift
    timeout 60 env "${env[@]}" "$@" >"$name.out" 2>"$name.err"
    echo $? >"$name.status"
    echo "$name: status $(cat "$name.status"), $((SECONDS - began)) s"
}
with=("LD_PRELOAD=$shim" VRAMSCOPE_ALLOCATOR=arena "VRAMSCOPE_OUTPUT=$PWD/%p.db")
without=("LD_PRELOAD=$shim" "VRAMSCOPE_OUTPUT=$PWD/%p.db") # the shim, but no arena

# What the program itself judged, and how it ended.
judge() {
    local name=$1 line
    while read -r line; do
        case $line in
        PASS*) pass "$name: ${line#PASS }" ;;
        FAIL*) fail "$name: ${line#FAIL }" ;;
        '~'*) echo "     $name: ${line#'~ '}" ;;
        esac
    done <"$name.out"
    if [ "$(cat "$name.status")" = 77 ]; then
        echo "SKIP $name: $(head -n 1 "$name.out")"
    elif [ "$(cat "$name.status")" != 0 ]; then
        fail "$name: status $(cat "$name.status"): $(tail -n 3 "$name.out" "$name.err" | tr '\n' ' ')"
    fi
    if [ -s "$name.err" ]; then sed "s/^/     $name: /" "$name.err" | head -n 5; fi
}

for program in answers ipc life aliases; do
    "${CC:-gcc}" -O1 -I"$include" -o "$program" "$here/$program.c" -ldl -lpthread || { fail "$program does not build" && exit 1; }
done

run driver-answers -- ./answers
run arena-answers "${with[@]}" -- ./answers
run defer-answers "${with[@]}" VRAMSCOPE_ARENA_FREE=defer -- ./answers
for name in arena defer; do
    grep '^=' driver-answers.out >driver.same
    grep '^=' $name-answers.out >$name.same
    if [ "$(cat $name-answers.status)" = 0 ] && diff driver.same $name.same >$name.differences; then
        pass "$name: $(wc -l <driver.same) answers are the driver's"
    else
        fail "$name: of $(wc -l <driver.same) answers of the driver's these differ (< driver, > arena):"
        grep '^[<>]' $name.differences | head -n 60
        tail -n 1 $name-answers.out
    fi
done

run driver-ipc -- ./ipc
judge driver-ipc
run arena-ipc "${with[@]}" -- ./ipc
judge arena-ipc
run arena-ipc-rebind "${without[@]}" -- ./ipc # the shim alone changes nothing
judge arena-ipc-rebind

for part in wait capture full reset; do
    for who in driver arena; do
        if [ $who = arena ]; then run arena-$part "${with[@]}" -- ./life $part; else run driver-$part -- ./life $part; fi
        judge $who-$part
    done
done
run defer-full "${with[@]}" VRAMSCOPE_ARENA_FREE=defer -- ./life full
judge defer-full

run aliases -- ./aliases
judge aliases

rm -f ./*.db ./*.same
counted
