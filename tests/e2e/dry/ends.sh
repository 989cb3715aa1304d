#!/bin/bash
# A dry run ends after so many steps of the optimizers, whatever the program does against it: its recording is complete, what it wrote is gone, its
# children too.  A program that ends before has its own status.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/facts.bash"
export CHECKPOINT=$dir/checkpoint TMPDIR=$dir

ended() { # STATUS OUTPUT STEPS-RECORDED TOLD
    [ "$status" = "$1" ] || fail "status $status, not $1"
    [ "$(cat "$run/out")" = "$2" ] || fail "it printed '$(cat "$run/out")', not '$2'"
    expect_sql "SELECT count(*) FROM event WHERE op = 'step'" "$3"
    expect_sql "SELECT value FROM meta WHERE key = 'clean_end'" 1
    [ "$(grep '^ended' "$run/facts" | cut -f 2)" = "$4" ] || fail "it told: $(cat "$run/facts")"
    [ ! -e "$CHECKPOINT" ] || fail "a checkpoint was written"
}

shim_env=(VRAMSCOPE_DRY_STEPS=3)
follow "$here/ends.py" hostile
ended 0 '1 2 3 4 5 6 7 8 9 10 11 12 ' 3 3
! pgrep -f "ends.py hostile" >/dev/null || fail "children are left"

follow "$here/ends.py" failing
ended 7 '1 2 3 ' 3 ''

follow "$here/ends.py" compiled
ended 0 '1 2 3 end' 3 ''
! pgrep -f "sleep 280" >/dev/null || fail "the program waited for its compilers"

if in_full; then
    follow "$here/ends.py" generating
    ended 0 end 0 ''
fi
