#!/bin/bash
# Blocks of a snapshot have the role that stacks and lives prove, and none in programs that only look alike (role_cases.py).
. "$(dirname "$0")/../lib/command.bash"
export PYTHONDONTWRITEBYTECODE=1
cases=$(python3 "$HERE/role_cases.py" make .) || exit 1
for case in $cases; do
    "$V" import -o "$case.db" "$case.pickle" >out 2>&1 || no "import $case: $(cat out)"
done
python3 "$HERE/role_cases.py" check . || no "roles"
[ "$failures" = 0 ] && echo ok
exit $((failures > 0))
