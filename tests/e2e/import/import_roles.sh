#!/bin/bash
# What blocks of a snapshot are for: each rule decides where it may, and says nothing of programs that only look alike; the commands know
# these roles, and say that they come of stacks and lives.
set -u
BUILD=${BUILD:?the build directory}
HERE=$(cd "$(dirname "$0")" && pwd)
V=$BUILD/bin/vramscope
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
cd "$D" || exit 1
failures=0
no() { echo "FAILED: $*" && failures=$((failures + 1)); }
export PYTHONDONTWRITEBYTECODE=1
cases=$(python3 "$HERE/role_cases.py" make .) || exit 1
for case in $cases; do
    "$V" import -o "$case.db" "$case.pickle" >out 2>&1 || no "import $case: $(cat out)"
done
python3 "$HERE/role_cases.py" check . || no "roles"
[ "$failures" = 0 ] && echo ok
exit $((failures > 0))
