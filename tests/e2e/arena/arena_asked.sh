#!/bin/bash
# Who asks for the arena gets it, or is told in one line that he does not.
. "$(dirname "$0")/../lib/lib.bash"
export SIMCUDA_BANNER=0 SIMCUDA_CAPACITY=1GiB
new_run

# a caching allocator that reports as PyTorch's: a hook that Python did not load (-I, -E, -S) leaves this
said='PyTorch kept its own allocator, it did not use the arena'
noted="NOTE: PyTorch's own allocator was in use and kept up to"
# told WANTED ALLOCATOR COMMAND...
told() {
    local wanted=$1 which=$2
    shift 2
    new_run
    "$V" run --allocator="$which" -o "$db" -- "$@" >"$run/out" 2>"$run/err" || fail "$*: exit status $?"
    [ "$(grep -cF "$said" "$run/err")" = "$wanted" ] || fail "$which, $*: wanted $wanted line on stderr"
    "$V" report --all "$db" >"$run/report" || fail "no report"
    [ "$(grep -cF "$noted" "$run/report")" = "$wanted" ] || fail "$which, $*: wanted $wanted note in the report: $(cat "$run/report")"
}
told 1 arena "$tests/prog_caching" native 2000
told 0 off "$tests/prog_caching" native 2000
told 0 arena "$tests/prog_arena_torch" streams
told 0 arena "$tests/prog_arena" gaps
grep -qF '  arena: at its peak' "$run/report" || fail "a plain program's arena is not in its report"

# no room for its addresses, or nothing in the primary context: the driver serves, and that is said
served='the arena served nothing: `vramscope doctor` says whether it can'
new_run
(ulimit -v 8000000; SIMCUDA_CAPACITY=4GiB exec "$V" run --allocator=arena -o "$db" -- "$tests/prog_arena" gaps) >"$run/out" 2>"$run/err" || fail "status $?"
[ "$(grep -cF "$served" "$run/err")" = 1 ] || fail "not said that the arena could not serve"
expect_sql "SELECT count(*) > 0, sum(space = 'arena') FROM event WHERE op = 'alloc'" '1|0'
new_run
"$V" run --allocator=arena -o "$db" -- "$tests/prog_arena" gaps >"$run/out" 2>"$run/err" || fail "status $?"
grep -qF 'served nothing' "$run/err" && fail "it served"
new_run
"$V" run --allocator=arena -o "$db" -- true >"$run/out" 2>"$run/err" || fail "status $?"
grep -qF 'served nothing' "$run/err" && fail "nothing was asked of it"

# the Python hook comes for the arena alone, too, by run and by wrap, and is told to leave phases; nobody complains of that
hook() { # hook ALLOCATOR COMMAND...: how often our directory stands in PYTHONPATH
    local which=$1
    shift
    env -u PYTHONPATH VRAMSCOPE_ALLOCATOR="$which" "$@" -- env 2>"$run/err" | grep -E '^(PYTHONPATH|VRAMSCOPE_AUTO_PHASES)=' | sed 's/=.*python$/=ours/' | sort | tr '\n' ' '
}
for road in "run -q -o $dir/unused.db" wrap; do
    # shellcheck disable=SC2086
    got=$(hook arena "$V" $road --no-auto-phases)/$(hook off "$V" $road --no-auto-phases)/$(hook off "$V" $road)
    [ "$got" = "PYTHONPATH=ours VRAMSCOPE_AUTO_PHASES=off /VRAMSCOPE_AUTO_PHASES=off /PYTHONPATH=ours " ] || fail "$road: $got"
done
new_run
"$V" run --no-auto-phases --allocator=arena -q -o "$db" -- "$tests/prog_arena" gaps 2>"$run/err" || fail "status $?"
[ ! -s "$run/err" ] || fail "something is said of an option of our own"

# what makes no sense: refused before anything starts, or one line and the default
for value in foo '' Arena 'arena '; do
    "$V" run --allocator="$value" -o "$run/other.db" -- touch "$run/started" 2>"$run/err"
    [ $? = 2 ] && [ "$(wc -l <"$run/err")" = 1 ] && [ ! -e "$run/started" ] || fail "--allocator='$value'"
    grep -qF "takes off or arena, not '$value'" "$run/err" || fail "--allocator='$value'"
done
for wrong in ALLOCATOR=Arena ARENA_FREE=never ARENA_KEEP=-1 ARENA_KEEP=10% ARENA_KEEP=99999999999999999999T ARENA_VIEWS=2 ARENA_VIEW=off; do
    shim_env=(VRAMSCOPE_ALLOCATOR=arena "VRAMSCOPE_$wrong")
    shimmed "$tests/prog_arena" gaps
    [ "$status" = 0 ] && [ "$(wc -l <"$run/err")" = 1 ] || fail "$wrong: not one line"
    grep -qE "^vramscope: VRAMSCOPE_${wrong%%=*}(=${wrong#*=} makes no sense: it takes .*; using | is no option)" "$run/err" || fail "$wrong"
done
echo "the arena, or a word"
