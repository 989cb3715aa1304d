#!/bin/bash
# Names and source lines of a stripped program from the server that DEBUGINFOD_URLS names; where the user names none, nobody is
# asked and nothing is opened, and frames keep their offsets.
. "$(dirname "$0")/../lib/lib.bash"
vramscope=$BUILD/bin/vramscope
[ -x "$vramscope" ] || skip "$vramscope is not built"
for tool in objcopy strip readelf; do
    command -v $tool >/dev/null || skip "there is no $tool"
done
unset DEBUGINFOD_URLS
export DEBUGINFOD_CACHE_PATH=$dir/cache
program=$dir/stripped
id=$(readelf -n "$tests/prog_stacks" | sed -n 's/.*Build ID: //p')
[ -n "$id" ] || skip "the programs have no build-id"
[ ! -e "/usr/lib/debug/.build-id/${id:0:2}/${id:2}.debug" ] || skip "the program's debug file is installed"
mkdir -p "$dir/server/buildid/$id"
objcopy --only-keep-debug "$tests/prog_stacks" "$dir/server/buildid/$id/debuginfo" || skip "objcopy"
strip -o "$program" "$tests/prog_stacks" || skip "strip"
shimmed "$program" 3
[ "$status" = 0 ] || fail "status $status"
cp "$db" "$dir/again.db"

LD_DEBUG=files LD_DEBUG_OUTPUT=$dir/opened "$vramscope" peak "$db" >"$run/peak" || fail "peak"
grep -q debuginfod "$dir"/opened.* && fail "libdebuginfod is opened although nobody is to be asked"
grep -qE '^ +stripped\+0x[0-9a-f]+' "$run/peak" || fail "a stripped program's frames: $(cat "$run/peak")"
expect_sql "SELECT count(*) FROM frame JOIN module ON module.id = module WHERE path = '$program' AND file IS NOT NULL" 0

# a server that does not answer costs the rest of the time at most, and one that has nothing costs nothing
db=$dir/again.db
cp "$db" "$dir/none.db"
DEBUGINFOD_CACHE_PATH=$dir/empty DEBUGINFOD_URLS=file://$dir/nowhere timeout 30 "$vramscope" peak "$dir/none.db" >"$run/peak" || fail "peak, a server without the file"
grep -qE '^ +stripped\+0x[0-9a-f]+' "$run/peak" || fail "a server without the file: $(cat "$run/peak")"

export DEBUGINFOD_URLS=file://$dir/server
LD_DEBUG=files LD_DEBUG_OUTPUT=$dir/asked "$vramscope" peak "$db" >"$run/peak" || fail "peak"
grep -qE 'calling init: .*libdebuginfod.so.1' "$dir"/asked.* || skip "libdebuginfod.so.1 is not installed: names and lines from a server are not tested"
grep -qE '^ +allocate  \(stripped\)  .*prog_stacks.c:[0-9]+$' "$run/peak" || fail "no names and lines from the server: $(cat "$run/peak")"
expect_sql "SELECT count(*) > 0 FROM frame WHERE function = 'descend' AND file LIKE '%prog_stacks.c' AND line > 0" 1
unset DEBUGINFOD_URLS # they are in the file from now on, and can be read where no server is
rm -r "$dir/server" "$program"
"$vramscope" peak "$db" | grep -qE '^ +allocate  \(stripped\)  .*prog_stacks.c:[0-9]+$' || fail "the file does not keep them"
echo "lines come from a server where one is named, and stay"
