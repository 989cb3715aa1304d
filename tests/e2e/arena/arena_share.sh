#!/bin/bash
# Memory of an arena has the same words in other processes; what was freed, or is of a process that is gone, cannot be opened, and nothing hangs.
. "$(dirname "$0")/../lib/lib.bash"
new_run
file=$run/handles
export SIMCUDA_BANNER=0
program=$tests/prog_arena_share
# shellcheck disable=SC2034
arena=(LD_PRELOAD="$shim" VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_JOURNAL_DIR="$run" VRAMSCOPE_OUTPUT="$run/%p.db")
# shellcheck disable=SC2034 # by its name
shim_alone=(LD_PRELOAD="$shim" VRAMSCOPE_JOURNAL_DIR="$run" VRAMSCOPE_OUTPUT="$run/%p.db")

begin_exporter() { # ENV...: starts one, and waits for its handles; $how: what it does besides
    rm -f "$file"
    coproc exporter { exec env "$@" "$program" export "$file" ${how:+"$how"} 2>>"$run/err"; }
    pid=$!
    for _ in $(seq 100); do [ -f "$file" ] || sleep 0.05; done
    [ -f "$file" ] || fail "the exporter wrote no handles"
}
order() { # WORD, and what the exporter says to it
    echo "$1" >&"${exporter[1]}" || fail "the exporter is gone"
    local line said=
    while IFS= read -r -t 10 line <&"${exporter[0]}" && [ "$line" != 'so be it' ]; do said+=$line; done
    [ "$line" = 'so be it' ] || fail "the exporter does not answer to $1"
    printf '%s' "$said"
}
end_exporter() {
    echo end >&"${exporter[1]}"
    wait "$pid" || fail "the exporter ended with $?"
}
opened() { # EXPECTED WHAT ENV...
    local said
    said=$(timeout 300 env "${@:3}" "$program" open "$file" "$2" 2>"$run/opener") || fail "$2: $? $(cat "$run/opener")"
    [ "$said" = "$1" ] || fail "$2: '$said', not '$1' $(cat "$run/opener")"
}
secrets() { # of the third handle: key, proof and id, as hexadecimal words of 8 bytes in both orders
    od -An -v -tx1 -w8 -j$((2 * 64 + 24)) -N32 "$file" | while read -r -a byte; do
        printf '%s' "${byte[@]}" $'\n'
        for i in 7 6 5 4 3 2 1 0; do printf '%s' "${byte[i]}"; done
        echo
    done
}
mentioned() { # FILE...: whether one of the lines of $run/secrets stands in them, as bytes or as text
    local one
    for one; do
        od -An -v -tx1 "$one" | tr -d ' \n' | grep -qFf "$run/secrets" && return
        grep -qaiFf "$run/secrets" "$one" && return
    done
    return 1
}
mute() { [ ! -s "$run/opener" ] || fail "said: $(cat "$run/opener")"; }

# the driver's own way, for what follows to be like it
begin_exporter
opened 'wrong words: 0' words
[ "$(order check)" = 'wrong words: 0' ] || fail "the driver's words"
order free
opened 'opening gives 400' status
order again
opened 'opening gives 0' status
opened 'contexts are kept apart' contexts
end_exporter

# who opens may have an arena or none
for who in arena shim_alone; do
    declare -n with=$who
    begin_exporter "${arena[@]}"
    opened 'wrong words: 0' words "${with[@]}"
    [ "$(order check)" = 'wrong words: 0' ] || fail "$who: the exporter does not see the opener's words"
    end_exporter
    how=resumed begin_exporter "${arena[@]}" # what came back lies on other handles
    opened 'wrong words: 0' words "${with[@]}"
    [ "$(order check)" = 'wrong words: 0' ] || fail "$who: the exporter that was away does not see the opener's words"
    order free
    opened 'opening gives 400' status "${with[@]}"
    order again # at the same address, but another block
    opened 'opening gives 0' status "${with[@]}"
    opened 'contexts are kept apart' contexts "${with[@]}"
    mute
    # none opens but with its name, key, proof and number; the first bytes are the kind's, then come the process's and the device's
    opened '8:400 8:0 8:205 16:400 8:205 8:400' forged "${with[@]}"
    cp "$run/opener" "$run/lines"
    [ "$(grep -c 'does not hand it over' "$run/lines")" = 16 ] || fail "not told so of name and proof: $(cat "$run/opener")"
    secrets >"$run/secrets"
    [ "$(sort -u "$run/secrets" | grep -cx '[0-9a-f]\{16\}')" = 8 ] || fail "secrets: $(cat "$run/secrets")"
    mentioned "$file" || fail "what is looked for is not found where it stands"
    # without the shim there is nobody who knows such handles: the driver's error, and no harm
    opened 'opening gives 400' status
    end_exporter
    opened 'opening gives 400' status "${with[@]}" # gone
    mute
    [ -n "$(databases)" ] || fail "no record"
    ! mentioned "$run"/*.db "$run/err" "$run/lines" || fail "the key is in a record or a line"
done

# an exporter of whatever user may say what is not so: an error, and nothing stays; his memory is what it is when he does not lie
cat >"$run/wanted" <<'END'
no files: 400
no pieces: 400
huge pieces: 400
far offset: 400
small: 400
larger later: 400
more later: 400
fewer later: 400
empty pieces: 400
not memory: 1
files lack: 205
END
for who in arena shim_alone; do
    declare -n with=$who
    timeout 300 env "${with[@]}" "$tests/prog_arena_liar" >"$run/out" 2>"$run/err" || fail "$who: a liar: $?"
    cmp "$run/wanted" "$run/out" || fail "$who: other errors of a liar's"
    [ "$(grep -c 'Too many open files): raise the limit' "$run/err")" = 1 ] || fail "$who: not told of descriptors that lack"
    : >"$run/err"
done

# what is open is marked as foreign, once, with the block's size, and in no device's total
begin_exporter "${arena[@]}"
rm -f "$run"/*.db
opened 'wrong words: 0' words "${arena[@]}"
db=$(databases)
expect_sql "SELECT group_concat(size_bytes) FROM (SELECT size_bytes FROM allocation WHERE space = 'imported' AND size_bytes > 0 ORDER BY alloc_seq)" \
    "4096,200000,5242880,50331648,136314880"
expect_sql "SELECT count(*) FROM peak WHERE kind IN ('allocated', 'reserved') AND peak_bytes > 0" 0
expect_sql "SELECT end_bytes FROM peak WHERE kind = 'imported'" 0

# an exporter that closes every file is there, and cannot be asked: told so
order close
opened 'opening gives 205' status "${arena[@]}"
grep -q 'does not hand it over' "$run/opener" || fail "nobody says what to do: $(cat "$run/opener")"

# a killed exporter, while others have its memory open or not
kill -9 "$pid"
wait "$pid" 2>/dev/null
opened 'opening gives 400' status "${arena[@]}"
echo "memory is shared between processes, and ends with its owner"
