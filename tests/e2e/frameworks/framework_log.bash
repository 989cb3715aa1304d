# shellcheck shell=bash
# framework_log.bash - sets $work, which goes away, and $log_library, shim/framework over framework_log.c.  build NAME ARG... runs the
# compiler.
set -u
here=$(cd "$(dirname "$0")" && pwd)
shim_source=$here/../../../shim
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
build() { "${CC:-cc}" -std=gnu11 -g -Wall -Werror -Wno-unused-parameter -I"$shim_source" "$@" || exit 1; }
log_library=${BUILD:?}/tests/libframework_log.so
export FRAMEWORK_LOG=$work/log

# expect_log WHAT <<END: the log is as wanted; it is emptied.
expect_log() {
    touch "$FRAMEWORK_LOG"
    if ! diff - "$FRAMEWORK_LOG" >"$work/difference"; then
        echo "FAIL: $1 (< wanted, > recorded)"
        cat "$work/difference"
        exit 1
    fi
    : >"$FRAMEWORK_LOG"
    echo "ok $1"
}
