#!/bin/bash
# A program that embeds its interpreter, ends it while threads allocate, forks or has two of them never notices; lines are right or missing.
. "$(dirname "$0")/../lib/lib.bash"
limit=300
python=${TEST_PYTHON:-python3}
"$python" -c 'import sys, ctypes; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || skip "there is no CPython 3.10 or later"

# daemon threads that allocate while the interpreter ends: with the GIL released most of the time
cat >"$dir/daemons.py" <<'END'
import ctypes, sys, threading
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
report = getattr(ctypes.CDLL(None), "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE")
def work(n):
    cuda.cuCtxSetCurrent(context)
    address = ctypes.c_uint64()
    for i in range(1 << 60):
        cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096))
        cuda.cuMemFree_v2(address)
        if i == 20:
            at_work.release()
at_work = threading.Semaphore(0)
for i in range(4):
    threading.Thread(target=work, args=(i,), daemon=True).start()
for i in range(4):
    at_work.acquire()
print("ended")
END
for stacks in python all; do
    shim_env=("VRAMSCOPE_STACKS=$stacks")
    for _ in 1 2 $(! in_full || echo 3 4 5 6); do
        shimmed "$python" "$dir/daemons.py"
        [ "$status" = 0 ] && [ "$(cat "$run/out")" = ended ] || fail "daemon threads at the end: status $status"
        expect_sql "SELECT count(*) FROM allocation WHERE op = 'alloc' AND line NOT LIKE '%/daemons.py:% work'" 0
    done
done
shim_env=()

# a fork child records lines of its own
cat >"$dir/forks.py" <<'END'
import ctypes, os
report = getattr(ctypes.CDLL(None), "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE")
def block():
    report(ctypes.c_void_p(0x7f0000000200), ctypes.c_int64(512), ctypes.c_size_t(512), ctypes.c_size_t(1 << 21), ctypes.c_uint16(1))
def parent():
    block()
def child():
    block()
parent()
pid = os.fork()
if pid == 0:
    child()
else:
    assert os.waitpid(pid, 0)[1] == 0
END
shim_env=(VRAMSCOPE_STACKS=python)
shimmed "$python" "$dir/forks.py"
[ "$status" = 0 ] || fail "fork: status $status"
for file in $(databases); do
    sqlite3 -batch "$file" "SELECT function FROM frame WHERE function IN ('parent', 'child')"
done | sort >"$run/functions"
[ "$(cat "$run/functions")" = $'child\nparent' ] || fail "fork: $(cat "$run/functions")"

# without the private unwinder a driver allocation still has its Python frames
mkdir "$dir/alone" && cp "$shim" "$dir/alone"
whole=$shim shim=$dir/alone/libvramscope.so
shimmed "$python" "$here/frames_program.py"
[ "$status" = 0 ] || fail "without the unwinder: status $status"
grep -q '^vramscope: no native call stacks: ' "$run/err" || fail "without the unwinder: not said: $(cat "$run/err")"
expect_sql "SELECT count(*) > 50 AND sum(line IS NULL) = 0 FROM allocation WHERE op IN ('alloc', 'block_alloc')" 1
expect_sql "SELECT count(*) FROM frame WHERE kind = 1" 0
shim=$whole

# interpreters as libraries
libraries=()
for candidate in "$HOME"/.pyenv/versions/*/lib/libpython3.1*.so.1.0 /usr/lib/*/libpython3.1*.so.1.0; do
    case $candidate in */libpython3.1[0-5].so.1.0 | */libpython3.1[3-5]t.so.1.0) [ -f "$candidate" ] && libraries+=("$candidate") ;; esac
done
[ ${#libraries[@]} -gt 0 ] || skip "no libpython to embed (the rest passed)"
"${CC:-cc}" -o "$dir/embed" "$here/embed.c" -ldl || fail "embed.c"
shim_env=(VRAMSCOPE_VERBOSE=1)
for library in "${libraries[@]}"; do
    export PYTHONHOME=${library%/lib/*}
    shimmed "$dir/embed" "$library"
    [ "$status" = 0 ] || fail "embedded $library: status $status"
    expect_sql "SELECT line FROM allocation WHERE size_bytes = 4096" "<string>:2 embedded"
    shimmed "$dir/embed" "$library" end
    [ "$status" = 0 ] || fail "embedded and ended $library: status $status"
    expect_sql "SELECT line FROM allocation WHERE size_bytes = 4096" "<string>:2 embedded"
    expect_sql "SELECT line FROM allocation WHERE size_bytes = 8192" ""
    shimmed "$dir/embed" "$library" late
    [ "$status" = 0 ] || fail "embedded late $library: status $status"
    expect_sql "SELECT line FROM allocation WHERE size_bytes = 2048" ""
    expect_sql "SELECT line FROM allocation WHERE size_bytes = 4096" "<string>:2 embedded"
    echo "ok embedded ${library##*/}"
done
if [ ${#libraries[@]} -gt 1 ]; then
    export PYTHONHOME=${libraries[0]%/lib/*}
    shimmed "$dir/embed" "${libraries[0]}" "${libraries[1]}"
    [ "$status" = 0 ] || fail "two interpreters: status $status"
    grep -q '^vramscope: CPython: lines of Python are not recorded: two interpreters are in the process' "$run/err" || fail "two interpreters: not said"
    expect_sql "SELECT count(*) FROM frame WHERE kind = 2" 0
fi
echo "whatever becomes of an interpreter, the program does not notice"
