#!/bin/bash
# What blocks of a snapshot are for: each rule decides where it may, and says nothing of programs that only look alike; the commands know
# these roles, and say that they come of stacks and lives.
. "$(dirname "$0")/../lib/command.bash"
export PYTHONDONTWRITEBYTECODE=1
cases=$(python3 "$HERE/role_cases.py" make .) || exit 1
for case in $cases; do
    "$V" import -o "$case.db" "$case.pickle" >out 2>&1 || no "import $case: $(cat out)"
done
python3 "$HERE/role_cases.py" check . || no "roles"
[ "$failures" = 0 ] && echo ok
exit $((failures > 0))
