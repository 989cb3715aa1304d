#!/bin/bash
# A recording that is moved or deleted in mid-run goes on in the file by the name that it has now, which is said; no journal is left that no command
# could remove.
. "$(dirname "$0")/../lib/lib.bash"
lib=$(cd "$(dirname "$0")/../lib" && pwd)
include=$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "$BUILD/CMakeCache.txt")
cat >"$dir/halves.c" <<'END'
#include "prog.h"
int main(int argc, char **argv)
{
    CUdeviceptr p;
    begin();
    for (int i = 0; i < 40; i++) {
        OK(cuMemAlloc(&p, MIB));
        if (i == 20 && system(argv[1]) != 0)
            return 4;
    }
    if (argc > 2)
        raise(9);
    return 5;
}
END
"${CC:-cc}" -include signal.h -I"$lib" -I"$lib/../../../shim" -I"${include:-/usr/local/cuda/include}" "$dir/halves.c" -o "$dir/halves" "$BUILD/sim/libcuda.so.1" ||
    fail "the program does not build"
# waits for the file, and for what it has of the first half
there="until [ -s \$F ] && [ \"\$(sqlite3 \$F 'SELECT count(*) FROM ev' 2>/dev/null)\" -gt 10 ] 2>/dev/null; do sleep 0.05; done"
moved() { # moved HOW [kill]
    new_run
    (cd "$run" && F=run.db timeout 300 "$V" run --simulated --journal-dir "$run" -o "$db" -- "$dir/halves" "$there; $1" "${@:2}" >out 2>err </dev/null)
    status=$?
}

moved 'mv $F now.db'
[ $status = 5 ] || fail "the program noticed: status $status"
grep -q "run.db: was moved or deleted while it was written; what was recorded is in it" "$run/err" || fail "nothing is said"
! grep -q "nothing was recorded\|Read-only" "$run/err" || fail "something false is said"
[ -z "$(find "$run" -name '*.vsj')" ] || fail "a journal is left"
db=$run/now.db
expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" 40
"$V" report --all "$db" | head -n 1 | grep -q "^complete" || fail "the moved file is not complete: $("$V" report --all "$db" | head -n 1)"

moved 'rm $F'
[ $status = 5 ] && [ -z "$(find "$run" -name '*.vsj')" ] || fail "deleted: status $status, or a journal is left"
! grep -q "nothing was recorded\|Read-only" "$run/err" || fail "deleted: something false is said"

# killed as well: the journal has the rest, and what is to be done is said
moved 'for f in $F*; do mv $f now.${f#run.}; done' kill # with its log beside it (-wal)
[ $status = 137 ] || fail "killed: status $status"
grep -q "run.db: is not there, but the journal continues it: if it was moved, vramscope recover with the name" "$run/err" || fail "killed: nothing is said"
"$V" recover "$run/now.db" >"$run/out" 2>&1 || fail "recover by the new name: $(cat "$run/out")"
db=$run/now.db
expect_sql "SELECT count(*) FROM event WHERE op = 'alloc'" 40
[ -z "$(find "$run" -name '*.vsj')" ] || fail "killed: a journal is left"
