#!/bin/bash
# What is set is told again, results that a program looks at are there, and versions are those of the library's name: CUDA 12 and 13.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
for major in 13 12; do
    dry python3 "$here/libraries_state.py" $major
    [ "$status" = 0 ] && [ "$(cat "$run/out")" = "all kept" ] || fail "CUDA $major: status $status"
    echo "ok CUDA $major"
done
