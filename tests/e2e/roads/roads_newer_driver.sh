#!/bin/bash
# What calls a driver that is newer than this vramscope runs as without us, by each road; what is not known and may move memory is told in the
# recording and in the report.
. "$(dirname "$0")/../lib/lib.bash"
include=$(sed -n 's/^CUDA_INCLUDE_DIR:[A-Z]*=//p' "$BUILD/CMakeCache.txt")
command -v "${CC:-cc}" >/dev/null || skip "no C compiler here"
flags=(-O1 -g -w "-I$include" "-I$here/../lib")

mkdir "$dir/newer"
"${CC:-cc}" "${flags[@]}" -shared -fPIC -o "$dir/newer/libcuda.so.1" "$here/beyond_driver.c" "$BUILD"/dry/driver/CMakeFiles/simcuda.dir/*.o \
    -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic "-Wl,--version-script=$here/../../../dry/driver/exports.map" -lpthread ||
    fail "the newer driver does not build"
driver=$dir/newer/libcuda.so.1
make_program() { "${CC:-cc}" "${flags[@]}" -o "$dir/$1" "$here/beyond.c" "${@:2}" "$driver" -ldl || fail "$1 does not build"; }
make_program beyond
make_program beyond_now -DBEYOND_LINKED -Wl,-z,now
make_program beyond_lazy -DBEYOND_LINKED -Wl,-z,lazy
"${CC:-cc}" "${flags[@]}" -shared -fPIC -DBEYOND_LIBRARY -o "$dir/library.so" "$here/beyond.c" "$driver" || fail "the library does not build"

# told ROAD WHY...: exactly these gaps
told() {
    local road=$1
    shift
    [ "$status" = 0 ] || fail "$road: status $status"
    expect_sql "SELECT events || '|' || code || '|' || why FROM loss WHERE code = 'not_covered' ORDER BY why" "$(printf '0|not_covered|not covered: %s\n' "$@")"
    expect_sql "SELECT op, size_bytes FROM event WHERE size_bytes = 1000 AND op = 'alloc'" 'alloc|1000'
    "$BUILD/bin/vramscope" report --all "$db" >"$dir/report" # says by its status that something is missing
    for why; do
        tr -s ' \n' ' ' <"$dir/report" | grep -qF "GAP: " || fail "$road: the report is silent"
        tr -s ' \n' ' ' <"$dir/report" | grep -qF "${why%%,*}" || fail "$road: the report does not name ${why%%,*}"
    done
}
shim_env=("LD_LIBRARY_PATH=$dir/newer")
referred=", which this vramscope does not know, is referred to by the program or a library of it"
looked=", which this vramscope does not know, was looked up"

for program in beyond_now beyond_lazy; do
    run_shimmed "$dir/$program"
    told $program "cuFooAlloc$referred" "cuMemAlloc_v3$referred"
done
run_shimmed "$dir/beyond" dlsym
told dlsym "cuFooAlloc$looked" "cuMemAlloc_v3$looked"
run_shimmed "$dir/beyond" proc
told proc "a form of cuFooAlloc (asked for as of CUDA 14.0) that this vramscope does not know was looked up" \
    "a form of cuMemAlloc (asked for as of CUDA 14.0) that this vramscope does not know was looked up"
run_shimmed "$dir/beyond" library "$dir/library.so"
told library "cuFooAlloc$referred" "cuMemAlloc_v3$referred"

# one that asks for less is recorded, and there is nothing to tell
run_shimmed "$dir/beyond" older
expect_events "op IN ('alloc', 'free')" <<<'alloc|device|cuMemAlloc_v2|1000|0|0
alloc|device|cuMemAlloc_v2|2000|0|0
free|device|cuMemFree_v2|2000|0|0
free|device|cuMemFree_v2|1000|0|0'
expect_clean
