#!/bin/bash
# Under run --spill programs that need more memory than the device has run to their end, and find each byte as it was; a round takes hardly longer. Where
# nothing can go, or the host has no more, they get the out-of-memory that they would have got; so do calls that need more at once than the device has.
. "$(dirname "$0")/../lib/lib.bash"
has_arena || skip "this build has no arena"
on=(VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_ACCESS=on SIMCUDA_CLOCK=work)
figure() { sed -n "s/^free \([0-9]*\) most \([0-9]*\) MiB, a round \([0-9.]*\) ms$/\\$1/p" "$run/err"; }
said() { grep -q "$1" "$run/err" || fail "$2: '$1' is not said"; }
# spilled MIB HOW ROUNDS [NAME=VALUE...]: on a device of so many MiB beside what a context takes; $status
spilled() {
    shim_env=("${on[@]}" VRAMSCOPE_SPILL=on SIMCUDA_CAPACITY="$(($1 + context))MiB" "${@:4}")
    shimmed "$tests/prog_spill" "$2" "$3"
}
works() {
    spilled "$@"
    [ $status = 0 ] || fail "$*: status $status"
    said 'spill: the device is full and lacks [0-9]* MiB: blocks of [0-9]* MiB went to the host' "$*"
    expect_clean
}

# more than there is
for how in train layers; do
    shim_env=("${on[@]}" SIMCUDA_CAPACITY=4GiB)
    shimmed "$tests/prog_spill" $how 5
    [ $status = 0 ] || fail "$how: status $status"
    context=$((4096 - $(figure 1))) most=$(figure 2) fits=$(figure 3)
    for over in $(! in_full || echo 110) 130; do
        shim_env=("${on[@]}" SIMCUDA_CAPACITY=$((most * 100 / over + context))MiB)
        shimmed "$tests/prog_spill" $how 2
        [ $status = 3 ] || fail "$how, $over %, without: status $status"
        works $((most * 100 / over)) $how 9
        ratio=$(awk "BEGIN { print $(figure 3) / $fits }")
        awk "BEGIN { exit !($ratio < 1.15) }" || fail "$how: a round takes $ratio times as long at $over %"
        expect_sql "SELECT max(away_bytes) >= $((most - most * 100 / over)) << 20 FROM away" 1
        echo "$how, $over %: $ratio"
    done
done
works 140 random 8 MOST=200
works 140 random 8 MOST=200 VRAMSCOPE_ARENA_FREE=defer
works 280 threads 8 MOST=180
works 56 sharing 3
works 256 eases 35
expect_sql "SELECT away_bytes FROM away ORDER BY seq DESC LIMIT 1" 0 # what went in each round goes no more
works 130 freed 6
works 130 graph 4
works 130 little 4
works 130 suspends 1
for road in copy rows slices boxes graph batch words; do # 48 of 130 MiB stay; those that come to lie there later do not
    works 130 stored 1 STORES=$road
    expect_sql "WITH block AS (SELECT seq, row_number() OVER (ORDER BY seq) AS n FROM event WHERE op = 'alloc' AND size_bytes = 8 << 20)
        SELECT sum(n <= 6) || ' ' || (sum(n BETWEEN 21 AND 26) > 0) FROM block WHERE seq IN (SELECT alloc_seq FROM away_block)" "0 1"
done
limit=300 works 3000 train 4 VRAMSCOPE_LIMIT=$((400 + context))MiB

# more than can be at once
for how in together unknown; do
    works "$([ $how = together ] && echo 90 || echo 130)" $how 1
    said "spill: $([ $how = together ] && echo work || echo 'a kernel or graph that may use any block').* needs .* that are on the host, the device has no memory for them, .*: such calls get CUDA_ERROR_OUT_OF_MEMORY" $how
done
spilled 300 train 2 VRAMSCOPE_SPILL=16MiB # the host
[ $status = 3 ] || fail "16 MiB on the host: status $status"
said 'no more than 16 MiB go to the host' "16 MiB on the host"
spilled 64 small 1
with=$(head -n 1 "$run/out")
shim_env+=(VRAMSCOPE_SPILL=)
shimmed "$tests/prog_spill" small 1
[ "$with" = "$(head -n 1 "$run/out")" ] || fail "$with small blocks with, $(head -n 1 "$run/out") without"

# a kill leaves the journal alone
new_run
env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$db" VRAMSCOPE_JOURNAL_DIR="$run" "${on[@]}" VRAMSCOPE_SPILL=on SIMCUDA_CAPACITY=$((130 + context))MiB \
    "$tests/prog_spill" waits 1 >"$run/out" 2>"$run/err" &
until grep -qs ready "$run/out"; do kill -0 $! 2>/dev/null || fail "it ended"; sleep 0.05; done
kill -KILL $!
wait $! 2>/dev/null
recover_run
expect_sql "SELECT max(away_bytes) > 0 FROM away" 1

# where it cannot be, one line says so
"$V" run -q -f -o "$dir/a.db" --simulated --spill=1GiB -- "$tests/prog_spill" freed 2 >/dev/null 2>"$dir/err" || fail "run --spill: $(cat "$dir/err")"
refused() {
    "$V" run "${@:2}" -- true 2>"$dir/err"
    [ $? = 2 ] && grep -q -e "$1" "$dir/err" || fail "${*:2}: $(cat "$dir/err")"
}
refused '--spill and --park exclude each other' --spill --park=optimizer-state
refused '--spill takes a size' --spill=much
refused '--spill needs the arena' --spill --allocator=off
shim_env=("${on[@]}" VRAMSCOPE_SPILL=on VRAMSCOPE_ARENA_VIEWS=off)
shimmed "$tests/prog_spill" freed 1
said 'VRAMSCOPE_SPILL=on: it takes VRAMSCOPE_ALLOCATOR=arena with VRAMSCOPE_ACCESS=on' "views off"
