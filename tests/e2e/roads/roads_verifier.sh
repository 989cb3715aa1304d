#!/bin/bash
# tests/gpu/roads/verify.py can say no: to an event missing, one too many, another order, another size, a loss, and no loss.
. "$(dirname "$0")/../lib/lib.bash"
verify=$(cd "$(dirname "$0")/../../gpu/roads" && pwd)/verify.py
command -v python3 >/dev/null || skip "no Python here"
shimmed "$tests/prog_children" worker 1111
a='alloc|device|cuMemAlloc_v2|1111|0'
b='free|device|cuMemFree_v2|1111|0'

says() { # says STATUS [OPTIONS] LINE...
    local want=$1 options=()
    shift
    while [[ $1 == --* ]]; do options+=("$1") && shift; done
    printf '%s\n' "$@" | python3 "$verify" "$db" "${options[@]}" >"$run/says"
    local got=$?
    [ $got = "$want" ] || fail "verify.py ${options[*]} said $got to: $* $(cat "$run/says")"
}
says 0 "$a" "$b"
says 1 "$a"
says 1 ''
says 1 "$a" "$a" "$b"
says 1 "$b" "$a"
says 0 --any-order "$b" "$a"
says 1 "${a/1111/1112}" "$b"
says 0 --contains "$b"
says 1 --contains "$b" "$a"
says 1 '--loss=not_covered' "$a" "$b"
sqlite3 "$db" "INSERT INTO loss VALUES(1, 0, 0, 'not_covered', 'not covered: a road')"
says 1 "$a" "$b"
says 0 '--loss=not_covered' "$a" "$b"

# a module that was not there to unload is no memory; a free that was refused is
shimmed "$tests/prog_modules"
expect_sql "SELECT count(*) FROM event WHERE op = 'free_failed'" 1
says 0 ''
shimmed "$tests/prog_linked"
sqlite3 "$db" "SELECT op || '|' || space || '|' || ifnull(api, '') || '|' || size_bytes || '|' || status FROM event
    WHERE op IN ('alloc', 'free', 'free_failed') ORDER BY seq" >"$run/list"
mapfile -t list <"$run/list"
grep -q '^free_failed' "$run/list" || fail "no free was refused: $(cat "$run/list")"
says 0 "${list[@]}"
mapfile -t list < <(grep -v '^free_failed' "$run/list")
says 1 "${list[@]}"
