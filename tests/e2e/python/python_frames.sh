#!/bin/bash
# By each interpreter that is here every block and driver allocation has the line that asked, and the capture agrees with the interpreter's
# own frames in
# some hundred situations (tests/python/check.py).
. "$(dirname "$0")/../lib/lib.bash"
limit=300
source=$here/../../..

find_pythons

# the lines of a recording, in the order of its allocations
lines_of() { sqlite3 -batch -noheader "$1" "SELECT line FROM allocation WHERE op IN ('block_alloc', 'alloc') ORDER BY alloc_seq"; }

for python in "${pythons[@]}"; do
    version=$("$python" -c 'import sys, sysconfig; print(sys.version.split()[0] + "t" * bool(sysconfig.get_config_var("Py_GIL_DISABLED")))')
    run=
    for jit in 0 1; do
        PYTHON_JIT=$jit timeout 120 "$python" "$source/tests/python/check.py" "$tests/libprobe_python.so" >"$dir/check" 2>&1 ||
            fail "$python $version, JIT $jit: $(tail -n 20 "$dir/check")"
        "$python" -c 'import sys; sys.exit(not (hasattr(sys, "_jit") and sys._jit.is_available()))' || break
    done
    for stacks in python all driver; do
        shim_env=("VRAMSCOPE_STACKS=$stacks")
        run_shimmed "$python" "$here/frames_program.py"
        [ "$status" = 0 ] || fail "$version, $stacks: exit status $status"
        if [ $stacks = driver ]; then
            expect_sql "SELECT count(*) FROM frame WHERE kind = 2" 0
            expect_sql "SELECT count(*) FROM allocation WHERE op = 'block_alloc' AND stack <> 0" 0
        else
            lines_of "$db" | diff "$run/out" - >"$run/difference" || fail "$version, $stacks: other lines: $(head -n 20 "$run/difference")"
            # a block's stack has native frames where they are asked for, a driver allocation's always
            expect_sql "SELECT max(kind = 1) FROM frame WHERE id IN (SELECT frame FROM stack WHERE id IN (SELECT stack FROM allocation WHERE op = 'block_alloc'))" \
                "$([ $stacks = all ] && echo 1 || echo 0)"
            expect_sql "SELECT min(kind) FROM frame WHERE id IN (SELECT frame FROM stack WHERE id IN (SELECT stack FROM allocation WHERE op = 'alloc'))" 1
        fi
        expect_clean "late_reserved" # nothing was asked of the driver for the blocks
        if [ $stacks = all ]; then
            "$source/tests/oracle/oracle.py" check "$db" >"$run/oracle" 2>&1 || fail "$version: the oracle: $(head -n 5 "$run/oracle")"
        fi
    done
    # what the lines rest on is proven, with Python's own word for the lines of some functions
    shim_env=("VRAMSCOPE_STACKS=python" "PYTHONPATH=$source/shim/framework/python")
    shimmed "$python" -c 'import runpy, sys; from vramscope import _lines; _lines.install(None); runpy.run_path(sys.argv[1])' "$here/frames_program.py"
    expect_sql "SELECT group_concat(name, ' ') FROM (SELECT name FROM contract WHERE name GLOB 'py_*' AND state = 'proven' ORDER BY name)" \
        "$(case $version in 3.1[01].*) ;; *) printf 'py_code ' ;; esac)py_frame py_lines"
    echo "ok CPython $version: $(tail -n 1 "$dir/check")"
done

# by default, and said with VRAMSCOPE_VERBOSE
python=${pythons[0]}
shim_env=(VRAMSCOPE_VERBOSE=1)
shimmed "$python" "$here/frames_program.py"
lines_of "$db" | diff "$run/out" - >"$run/difference" || fail "not by default: $(head -n 20 "$run/difference")"
grep -q '^vramscope: Python frames of CPython 3\.' "$run/err" || fail "nothing is said: $(cat "$run/err")"
"$BUILD/bin/vramscope" peak --by=line "$db" >"$run/peak" || fail "peak"
grep -q 'frames_program.py:[0-9]* main' "$run/peak" || fail "peak has no line: $(cat "$run/peak")"

# programs of other languages have no Python frames, and nothing is said of them
shimmed "$tests/prog_linked"
grep -q Python "$run/err" && fail "a C program: $(cat "$run/err")"
expect_sql "SELECT count(*) FROM frame WHERE kind = 2" 0
echo "every allocation has the line that asked for it"
