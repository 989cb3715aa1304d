#!/bin/sh
# The hooks' own programs with the real libvramscope.so instead of the tests' double: look-ups answer as they would
# without it, references to no driver stay NULL, and a process that allocates nothing leaves nothing behind.
set -u
work=$(mktemp -d) && cd "$work" || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

# run NAME DRIVER [VARIABLE=value]: program NAME of the unit tests over the driver in tests/hooks/DRIVER
run() {
    name=$1 driver=$2
    shift 2
    env "$@" LD_PRELOAD="$BUILD/lib/libvramscope.so" LD_LIBRARY_PATH="$BUILD/tests/hooks/$driver" \
        ASAN_OPTIONS=verify_asan_link_order=0 "$BUILD/tests/$name" >out 2>&1
    rc=$?
    [ $rc -eq 0 ] || { echo "FAIL: $name over the $driver driver, $*: exit $rc"; cat out; failed=1; }
}

[ -x "$BUILD/tests/test_hooks_lookup" ] || { echo "FAIL: no $BUILD/tests/test_hooks_lookup"; exit 1; }
for bind in LD_BIND_NOW= LD_BIND_NOW=1; do
    for program in "$BUILD"/tests/test_hooks_weak_* "$BUILD"/tests/test_hooks_stranger_*; do
        run "$(basename "$program")" new $bind
    done
    run test_hooks_lookup new $bind
    run test_hooks_proc new $bind
    run test_hooks_proc old $bind HOOKS_OLD_DRIVER=1
done
rm -f out
[ -z "$(ls -A)" ] || { echo "FAIL: files of a process that allocated nothing: $(ls -A)"; failed=1; }
exit $failed
