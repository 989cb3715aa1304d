#!/bin/bash
# Processes that inherit LD_PRELOAD and have nothing to do with CUDA notice nothing.  Where no recording can be made stderr has one line.
. "$(dirname "$0")/../lib/lib.bash"

# no file, no word, not even about options that make no sense
shimmed env VRAMSCOPE_STACKS=sometimes VRAMSCOPE_STAKCS=all sh -c 'cd "$0" && /bin/true && exec /bin/ls -A' "$dir"
[ "$status" = 0 ] || fail "status $status"
[ ! -s "$run/err" ] || fail "a process without CUDA was spoken to"
[ -z "$(find "$run" -name '*.db*' -o -name '*.vsj')" ] || fail "a process without CUDA has a file"

# the table of options, once asked for
shimmed env VRAMSCOPE_HELP=1 /bin/true
grep -q '^VRAMSCOPE_OUTPUT .*(default vramscope-%h-%p.db)$' "$run/err" || fail "VRAMSCOPE_HELP=1 prints no table"

# one_line TEXT COMMAND...: as without the shim, but for one line that has TEXT
one_line() {
    local text=$1
    shift
    env "${shim_env[@]}" "$@" >"$dir/plain.out" 2>"$dir/plain.err" </dev/null
    local plain=$?
    shimmed "$@"
    [ "$status" = "$plain" ] || fail "$*: status $status, $plain without the shim"
    cmp -s "$dir/plain.out" "$run/out" || fail "$*: other output"
    diff "$dir/plain.err" "$run/err" | grep '^[<>]' >"$run/said"
    [ "$(wc -l <"$run/said")" = 1 ] || fail "$*: not one line: $(cat "$run/said")"
    grep -q "^> vramscope: .*$text" "$run/said" || fail "$*: not '$text' but $(cat "$run/said")"
}

one_line 'VRAMSCOPE_STACKS=sometimes .*\[off,driver,python,all\].*using python' env VRAMSCOPE_STACKS=sometimes "$tests/prog_linked"
expect_sql "SELECT count(*) > 0 FROM event" 1
one_line '/nonexistent/x.db: No such file.*VRAMSCOPE_OUTPUT' env VRAMSCOPE_OUTPUT=/nonexistent/x.db "$tests/prog_linked"
one_line '/proc/x.db: .*VRAMSCOPE_OUTPUT' env VRAMSCOPE_OUTPUT=/proc/x.db "$tests/prog_linked"

# a limit on file sizes: the kernel's answer to going beyond it would be a deadly signal
shimmed bash -c 'ulimit -f 256; exec "$0"' "$tests/prog_linked"
[ "$status" = 0 ] || fail "ulimit -f: status $status"
grep -q 'vramscope: no journal at .*nothing is recorded' "$run/err" || fail "ulimit -f: not a word"
[ ! -e "$db" ] || fail "ulimit -f: an empty database was left"

# the journal's directory disappears, or the database does: the program doesn't care
shimmed bash -c '"$0" & until ls "$1"/*/*.db >/dev/null 2>&1 || ! kill -0 $!; do sleep 0.02; done; rm "$1"/*/*.vsj "$1"/*/*.db*; wait $!' "$tests/prog_signals" "$dir"
[ "$status" = 0 ] || fail "removed files: status $status"
echo "quiet where nothing is to be said, one line where something is"
