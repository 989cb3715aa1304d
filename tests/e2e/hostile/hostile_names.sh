#!/bin/bash
# Whatever a path or a host is called ends up as one file and one line; fifty processes that want the same file each get one of their own.
. "$(dirname "$0")/../lib/lib.bash"

# recorded DATABASE COMMAND...: the command under the shim, with that VRAMSCOPE_OUTPUT as it is
recorded() {
    local output=$1
    shift
    LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$output" VRAMSCOPE_JOURNAL_DIR="$run" "$@" >"$run/out" 2>"$run/err" </dev/null
    status=$?
    [ $status = 0 ] || fail "'$output': status $status"
}

for claim in 0 1; do
    new_run
    for i in {1..50}; do
        LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$run/run.db" VRAMSCOPE_CLAIM=$claim VRAMSCOPE_JOURNAL_DIR="$run" RANK=$i "$tests/prog_linked" \
            >>"$run/out" 2>>"$run/err" </dev/null &
    done
    wait
    ! grep -q '^vramscope' "$run/err" || fail "50 at once: $(grep -m 3 ^vramscope "$run/err")"
    [ "$(databases | wc -l)" = 50 ] || fail "50 at once: $(databases | wc -l) files"
    [ -e "$run/run.db" ] || fail "50 at once: nobody took the name itself"
    [ $claim = 0 ] || [ "$(databases | grep -c -- '-rank[0-9]*-pid[0-9]*\.db$')" = 49 ] || fail "50 at once: no ranks in the names"
    for db in $(databases); do
        expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" 6
        expect_sql "SELECT value FROM meta WHERE key = 'clean_end'" 1
    done
done

new_run
RANK=7 recorded "$run/%h-r%r-p%p-%%-%x-%" "$tests/prog_linked"
compgen -G "$run/$(hostname)-r7-p[0-9]*-%-x-%" >/dev/null || fail "patterns: $(ls "$run")"

for name in 'with space.db' "it's \"quoted\".db" $'new\nline.db' '-o.db' 'a?b#c%25.db' $'\xff\xfe.db' 'no-extension' '.db' 'file:x.db?mode=memory'; do
    new_run
    db="$run/$name"
    recorded "${db//%/%%}" "$tests/prog_linked"
    expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" 6
    [ -z "$(find "$run" -name '*-wal' -o -name '*-shm' -o -name '*-journal' -o -name '*.vsj')" ] || fail "'$name': leavings"
    ! grep -q '^vramscope' "$run/err" || fail "'$name': $(cat "$run/err")"
done

# SQLite takes names of 504 bytes: what is longer is one line, and no file
for length in 500 504 505 800 4000; do
    new_run
    path=$run
    while [ $((${#path} + 200)) -lt $length ]; do
        path+=/$(printf 'd%.0s' {1..150})
    done
    mkdir -p "$path"
    db=$path/$(printf "%$((length - ${#path} - 4))s" '' | tr ' ' n).db
    recorded "$db" "$tests/prog_linked"
    if [ $length -le 504 ]; then
        ! grep -q '^vramscope' "$run/err" || fail "$length bytes: $(cat "$run/err")"
        expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" 6
    else
        [ "$(grep -c '^vramscope: .*File name too long; nothing is recorded' "$run/err")" = 1 ] || fail "$length bytes: $(cat "$run/err")"
        [ -z "$(find "$run" -name '*.db*' -o -name '*.vsj')" ] || fail "$length bytes: a file"
    fi
done
new_run
recorded "$run/$(printf 'n%.0s' {1..300}).db" "$tests/prog_linked"
[ "$(grep -c '^vramscope: .*File name too long' "$run/err")" = 1 ] || fail "a name too long: $(cat "$run/err")"
# a pattern that is cut off must not become another file's name
recorded "$run/$(printf 'x/%.0s' {1..3000})run.db" "$tests/prog_linked"
[ "$(grep -c '^vramscope: no database' "$run/err")" = 1 ] || fail "6000 bytes: $(cut -c1-300 "$run/err")"

# a host name is not a way out of the directory
if unshare -u true 2>/dev/null; then
    for host in 'a/b' '../../up' '%p' 'two words' ''; do
        new_run
        unshare -u bash -c 'printf %s "$1" >/proc/sys/kernel/hostname; cd "$2" && shift 2 && exec "$@"' - "$host" "$run" \
            env LD_PRELOAD="$shim" VRAMSCOPE_JOURNAL_DIR="$run" "$tests/prog_linked" >"$run/out" 2>"$run/err"
        [ $? = 0 ] || fail "host '$host': status"
        [ "$(find "$run" -name 'vramscope-*.db' | wc -l)" = 1 ] || fail "host '$host': $(ls -R "$run") $(cat "$run/err")"
    done
fi
