#!/bin/bash
# In its steady state the recorder makes no call that changes the address space (mmap, munmap, mprotect, mremap, madvise, brk): each would take the
# lock that the host's page faults need.  The kernel counts them, by seccomp's user notification.
. "$(dirname "$0")/../lib/lib.bash"

shimmed "$tests/prog_steady" 60 20 "$dir/calls"
[ "$status" != 77 ] || skip "no seccomp user notification here"
[ "$status" = 0 ] || fail "exit status $status"
calls=$(awk '{ n += $2 } END { print NR, n }' "$dir/calls")
# a list that grows may take a larger piece once; in the steady state there is none
case $calls in
"6 "[0-4]) ;;
*) fail "calls of the recorder's threads that change the address space: $(tr '\n' ' ' <"$dir/calls")" ;;
esac
expect_clean ""
expect_sql "SELECT count(*) FROM event WHERE op IN ('alloc', 'free')" 62160
