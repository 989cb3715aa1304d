#!/bin/bash
# libc10_cuda's reports reach us and the real functions behind us: libc10 loaded RTLD_LOCAL, under an odd name.
. "$(dirname "$0")/framework_log.bash"

# make DIRECTORY SONAME FLAG...: libc10 under that name, libc10_cuda beside it
make() {
    local d=$work/$1 name=$2
    shift 2
    mkdir -p "$d"
    build "$@" -DREAL -shared -fPIC -Wl,-soname,"$name" -o "$d/$name" "$here/c10_fake.c"
    build "$@" -DCALLER -shared -fPIC -Wl,-rpath,'$ORIGIN' -o "$d/libc10_cuda.so" "$here/c10_fake.c" "$d/$name"
}
build -DMAIN -o "$work/main" "$here/c10_fake.c" -ldl

# check WHAT DIRECTORY: same output as without us, and what the log says
check() {
    "$work/main" "$work/$2/libc10_cuda.so" >"$work/without" || { cat "$work/without"; exit 1; }
    LD_PRELOAD=$log_library "$work/main" "$work/$2/libc10_cuda.so" >"$work/with" || exit 1
    diff "$work/without" "$work/with" || { echo "FAIL: $1: the real functions get something else"; exit 1; }
    expect_log "$1"
}
blocks() {
    echo "op 20 0x7f0000000200 size 512 allocated 512 reserved 2097152 device 1 range 0"
    echo "op 21 0x7f0000000200 size 512 allocated 0 reserved 2097152 device 1 range 0"
}
# The names themselves: what a C++ compiler would have made of torch's declarations.
nm -D --defined-only "$log_library" | sed -n 's/.* T \(_ZN3c10\)/\1/p' | c++filt | sort >"$FRAMEWORK_LOG"
expect_log "mangled names" <<'END'
c10::reportMemoryUsageToProfiler(void*, long, unsigned long, unsigned long, c10::Device)
c10::reportOutOfMemoryToProfiler(long, unsigned long, unsigned long, c10::Device)
END

oom="op 22 0 size 1099511627776 allocated 7 reserved 8 device 1 range 0"

make plain libc10.so
check "libc10 by its name" plain < <(for _ in 1 2; do blocks; echo "$oom"; done)
make odd libc10-f3a9c1d0.so
check "a wheel's odd file name" odd < <(for _ in 1 2; do blocks; echo "$oom"; done)

# The same through the whole library: the reports start the recording, and are rows of the database.
shim=${BUILD:?}/lib/libvramscope.so
if [ -f "$shim" ] && command -v sqlite3 >/dev/null; then
    LD_PRELOAD=$shim VRAMSCOPE_OUTPUT=$work/run.db VRAMSCOPE_JOURNAL_DIR=$work \
        "$work/main" "$work/plain/libc10_cuda.so" >"$work/with" 2>"$work/err" || exit 1
    "$work/main" "$work/plain/libc10_cuda.so" | diff - "$work/with" || { echo "FAIL: other output under the shim"; exit 1; }
    sqlite3 "$work/run.db" "SELECT op, size_bytes, device, framework_bytes FROM event WHERE op IN ('block_alloc', 'block_free', 'oom') ORDER BY seq" >"$FRAMEWORK_LOG"
    expect_log "in the database" < <(for _ in 1 2; do printf '%s\n' 'block_alloc|512|1|512' 'block_free|512|1|0' 'oom|1099511627776|1|0'; done)
    [ "$(sqlite3 "$work/run.db" "SELECT group_concat(state) FROM contract WHERE name IN ('torch_reports', 'torch_stream')")" = proven,proven ] ||
        { echo "FAIL: what is taken for granted is not proven"; exit 1; }

    # a current stream that comes otherwise is not asked for, and all else is recorded
    make object libc10.so -DSTREAM_OBJECT
    LD_PRELOAD=$shim VRAMSCOPE_OUTPUT=$work/object.db VRAMSCOPE_JOURNAL_DIR=$work \
        "$work/main" "$work/object/libc10_cuda.so" >"$work/with" 2>"$work/err" || { echo "FAIL: a stream that comes through a pointer"; exit 1; }
    sqlite3 "$work/object.db" "SELECT state FROM contract WHERE name = 'torch_stream'; SELECT stream FROM event WHERE op = 'block_alloc'" >"$FRAMEWORK_LOG"
    expect_log "a stream that comes through a pointer" < <(printf '%s\n' broken 0 0)
fi
