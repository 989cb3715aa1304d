# shellcheck shell=bash
# command.bash - sourced by the tests that ask `vramscope` about files, most of them made up, and say all that is wrong.
#
#   $BUILD, $SRC, $HERE, $V   the build, the sources, the folder of the test, the command
#   $D                        a folder of the test's own, in which it is from here on
#   make_db NAME [OPTION...]  a made-up recording (tests/data/make_db.py)
#   in_full                   as in lib.bash
#   no WHAT...                counts a failure; a test ends with [ $failures = 0 ]
#   refused TEXT COMMAND...   status 2, and one line that has TEXT
#   golden NAME COMMAND...    prints what tests/data/golden/NAME has; UPDATE=1 writes that anew
set -u
BUILD=$(cd "${BUILD:?the build directory}" && pwd) || exit 1
SRC=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
# shellcheck disable=SC2034 # the tests use them
HERE=$(cd "$(dirname "$0")" && pwd) V=$BUILD/bin/vramscope
D=$(mktemp -d) || exit 1
trap 'rm -rf "$D"' EXIT
cd "$D" || exit 1
failures=0
in_full() { [ -n "${FULL:-}" ]; }
no() { echo "FAILED: $*" && failures=$((failures + 1)); }
make_db() { python3 "$SRC/tests/data/make_db.py" "$SRC/shim/trace/schema.sql" "$@" || exit 1; }
refused() {
    local text=$1
    shift
    "$@" >out 2>err
    [ $? = 2 ] && [ "$(wc -l <err)" = 1 ] && grep -qF -- "$text" err || no "$*: not one line '$text': $(cat err)"
}
GOLDEN=$SRC/tests/data/golden
golden() {
    local name=$1
    shift
    COLUMNS=80 "$@" >"$name" 2>&1
    [ -n "${UPDATE:-}" ] && cp "$name" "$GOLDEN/$name"
    diff -u "$GOLDEN/$name" "$name" || no "$* differs from tests/data/golden/$name"
}
