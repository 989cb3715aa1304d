#!/bin/bash
# Workers whose launcher takes LD_PRELOAD away: Python's put it back by themselves, `vramscope wrap` does for others, and who stays without is told.
. "$(dirname "$0")/../lib/lib.bash"
program=$(cd "$(dirname "$0")/../../gpu/roads" && pwd)/children.py
command -v python3 >/dev/null || skip "no Python here"
memory="op IN ('alloc', 'free', 'free_failed')"
unset PYTHONPATH VRAMSCOPE_OUTPUT

# under_run COMMAND...: the output and status of COMMAND must be those that it has alone.
under_run() {
    local plain
    "$@" >"$dir/plain.out" 2>"$dir/plain.err" </dev/null
    plain=$?
    new_run
    (cd "$run" && timeout 300 "$V" run --simulated -o "$db" --journal-dir "$run" -- "$@" >"$run/out" 2>"$run/err" </dev/null)
    status=$?
    [ $status = $plain ] || fail "$*: status $status under run, $plain without"
    cmp -s "$dir/plain.out" "$run/out" || fail "$*: other output: $(diff "$dir/plain.out" "$run/out")"
}
only_file() { [ "$(databases)" = "$db" ] || fail "files: $(databases)"; }
told() { # told EXPECTED-COUNT: lines on stderr about a process that is not recorded
    local n
    n=$(grep -c 'is NOT RECORDED: LD_PRELOAD was removed' "$run/err")
    [ "$n" = "$1" ] || fail "$n lines about processes that are not recorded, not $1: $(cat "$run/err")"
}

# Python workers: executed once more with LD_PRELOAD put right, flags and arguments kept
for how in cleared replaced; do
    under_run python3 "$program" $how
    told 0
    only_file
    expect_events "$memory" <<'END'
alloc|device|cuMemAlloc_v2|4000|0|0
free|device|cuMemFree_v2|4000|0|0
END
    expect_clean
done
printf '%s\n' 'import os, sys' 'print("LD_PRELOAD", os.environ.get("LD_PRELOAD"))' 'print(sys.argv, sys.flags, sys.orig_argv)' \
    'print(sys.stdin.read())' >"$dir/show.py"
show() { env -u LD_PRELOAD "$@" <<<"input"; }
export VRAMSCOPE_PRELOAD=$shim PYTHONPATH
PYTHONPATH=$(cd "$(dirname "$0")/../../../shim/framework/python" && pwd)
# by a script, by -c, by -m, on stdin: the same but for LD_PRELOAD
for arguments in "$dir/show.py a" "-OO -u $dir/show.py" "-c import+os,sys;print(sys.argv,sys.orig_argv,sys.stdin.read())" "-m platform" "-"; do
    read -ra words <<<"$arguments"
    words=("${words[@]//+/ }")
    show VRAMSCOPE_REEXEC=off python3 "${words[@]}" >"$dir/once" 2>&1
    show python3 "${words[@]}" >"$dir/twice" 2>&1
    diff <(sed 's/^LD_PRELOAD None/LD_PRELOAD X/' "$dir/once") <(sed "s,^LD_PRELOAD $shim,LD_PRELOAD X," "$dir/twice") >"$dir/differs" || fail "python3 $arguments: differs: $(cat "$dir/differs")"
done
show python3 "$dir/show.py" >"$dir/out"
grep -qx "LD_PRELOAD $shim" "$dir/out" || fail "a script was not started again"
show VRAMSCOPE_REEXEC=off python3 "$dir/show.py" >"$dir/out"
grep -qx "LD_PRELOAD None" "$dir/out" || fail "VRAMSCOPE_REEXEC=off is ignored"
# a library that cannot be loaded: once, and never in a circle
cp /dev/null "$dir/libvramscope.so"
VRAMSCOPE_PRELOAD=$dir/libvramscope.so show timeout 300 python3 "$dir/show.py" >"$dir/out" 2>/dev/null || fail "a library that is none: status $?"
VRAMSCOPE_PRELOAD=$dir/none.so show python3 "$dir/show.py" >"$dir/out"
grep -qx "LD_PRELOAD None" "$dir/out" || fail "a library that is not there"
# a program that will not have it preloaded, and executes itself without it: it gets its way
cat >"$dir/without.py" <<'END'
import os, sys
starts = int(os.environ.pop("STARTS", "0")) + 1
if os.environ.pop("LD_PRELOAD", None) and starts < 5:
    os.execve(sys.executable, sys.orig_argv, dict(os.environ, STARTS=str(starts)))
print(starts)
END
[ "$(show timeout 300 python3 "$dir/without.py")" = 2 ] || fail "a program that executes itself without the library was started again: $(show timeout 20 python3 "$dir/without.py")"
for flag in -v "-X importtime"; do # prints what it imports: once
    read -ra words <<<"$flag"
    n=$(show python3 "${words[@]}" -c 'pass' 2>&1 | grep -c '^import time: .*encodings$\|^import .encodings. #')
    [ "$n" = 1 ] || fail "python3 $flag printed its imports $n times"
done
! show python3 -i -c 'import os; print(os.environ.get("LD_PRELOAD"))' 2>/dev/null </dev/null | grep libvramscope || fail "an interactive Python was started again"
unset VRAMSCOPE_PRELOAD PYTHONPATH

# any other worker: told, and a file that says so
under_run env LD_PRELOAD= "$tests/prog_children" worker 1111
told 1
only_file
expect_sql "SELECT count(*) FROM event" 0
expect_sql "SELECT count(*) FROM process WHERE command LIKE '%prog_children worker 1111'" 1
expect_sql "SELECT events FROM loss WHERE code = 'not_covered' AND why LIKE 'not covered: this process used the GPU%'" 0
"$V" report --all "$db" >"$run/report"
[ $? = 3 ] || fail "the report of a process that is not covered must end with 3: nobody can tell"
grep -q '^GAP: .*not covered: this process' "$run/report" || fail "the report is silent: $(cat "$run/report")"
grep -q ' NOT COVERED' "$run/err" || fail "the summary is silent: $(cat "$run/err")"
[ -z "$(find "$run" -name '*.vsj' -o -name '*-wal')" ] || fail "left behind: $(ls "$run")"
under_run python3 "$program" refused
told 1

# wrap puts it back; a worker that has it anyway is left alone
under_run env LD_PRELOAD= "$V" wrap -- "$tests/prog_children" worker 1111
told 0
only_file
expect_events "$memory" <<'END'
alloc|device|cuMemAlloc_v2|1111|0|0
free|device|cuMemFree_v2|1111|0|0
END
expect_clean
LD_PRELOAD='' "$V" wrap -o "$dir/w.db" -- env | grep -E '^(LD_PRELOAD|VRAMSCOPE_OUTPUT|CUDA_INJECTION64_PATH)=' | sort >"$dir/once"
LD_PRELOAD='' "$V" wrap -o "$dir/w.db" -- "$V" wrap -o other.db -- env | grep -E '^(LD_PRELOAD|VRAMSCOPE_OUTPUT|CUDA_INJECTION64_PATH)=' | sort | diff "$dir/once" - || fail "wrap twice"
grep -qx "LD_PRELOAD=$shim" "$dir/once" && grep -qx "VRAMSCOPE_OUTPUT=$dir/w.db" "$dir/once" || fail "wrap: $(cat "$dir/once")"
"$V" wrap -- /no/such/program 2>/dev/null
status=$?
[ $status = 127 ] || fail "wrap of nothing: $status"

# an injection library that is there already is served as well, by whoever the driver loads
cat >"$dir/tool.c" <<'END'
#include <unistd.h>
int InitializeInjection(void) { return write(1, "tool\n", 5) == 5; }
END
"${CC:-cc}" -shared -fPIC -o "$dir/tool.so" "$dir/tool.c" || fail "the tool does not build"
export CUDA_INJECTION64_PATH=$dir/tool.so
under_run "$tests/prog_children" worker 1111
[ "$(head -n 1 "$run/out")" = tool ] || fail "the other injection library was not called: $(cat "$run/out")"
told 0
under_run env LD_PRELOAD= "$tests/prog_children" worker 1111
told 1
unset CUDA_INJECTION64_PATH

# other libraries that are preloaded, before us and behind: one with a dlsym of its own
cat >"$dir/other.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
static void *(*next)(void *, const char *);
void *dlsym(void *restrict handle, const char *restrict name)
{
    if (!next)
        next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    void *p = next(handle, name);
    __asm__ volatile("" : "+r"(p));
    return p;
}
void *calloc(size_t n, size_t size);
void *__libc_calloc(size_t, size_t);
void *calloc(size_t n, size_t size) { return __libc_calloc(n, size); }
END
"${CC:-cc}" -shared -fPIC -o "$dir/other.so" "$dir/other.c" || fail "the other library does not build"
for order in "$dir/other.so:$shim" "$shim:$dir/other.so" "$shim $dir/other.so"; do
    new_run
    LD_PRELOAD="$order" VRAMSCOPE_OUTPUT="$db" VRAMSCOPE_JOURNAL_DIR="$run" timeout 300 python3 "$program" ctypes >"$run/out" 2>"$run/err" || fail "$order: $?"
    expect_events "$memory" <<'END'
alloc|device|cuMemAlloc_v2|3000|0|0
free|device|cuMemFree_v2|3000|0|0
END
    expect_clean
done

# a program with more rights than its caller ignores LD_PRELOAD and the driver's variable: it works, and there is no word and no file
[ "$(id -u)" = 0 ] || exit 0
new_run
chmod 755 "$dir" && chmod 777 "$run"
"${CC:-cc}" -o "$run/own_rights" -xc - -xnone -Wl,-rpath,"$BUILD/sim" "$BUILD/sim/libcuda.so.1" <<'END' || fail "own_rights"
#include <sys/auxv.h>
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(unsigned long *, unsigned long);
int main(void)
{
    unsigned long p;
    void *context;
    cuInit(0), cuDevicePrimaryCtxRetain(&context, 0), cuCtxSetCurrent(context);
    return cuMemAlloc_v2(&p, 4096) != 0 ? 3 : getauxval(AT_SECURE) ? 0 : 77;
}
END
chown nobody "$run/own_rights" && chmod 4755 "$run/own_rights"
SIMCUDA_BANNER=0 "$V" run -o "$db" -- "$run/own_rights" >"$run/out" 2>"$run/err"
status=$?
[ $status != 77 ] || exit 0 # set-user-id does not count on this file system
[ $status = 0 ] || fail "a set-user-id program: status $status"
[ -z "$(databases)" ] || fail "a set-user-id program left $(databases)"
[[ "$(cat "$run/err")" == "vramscope: nothing was recorded: "*"/own_rights runs with its owner's rights (set-uid, set-gid), and such a program ignores LD_PRELOAD: put vramscope run -- in front of what it starts" ]] || fail "a set-user-id program: $(cat "$run/err")"
