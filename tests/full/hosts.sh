#!/bin/bash
# hosts.sh ROUNDS - the end-to-end tests of hostile hosts, again and again under other conditions: one core, many threads
# beside them, samples each millisecond, stacks of every block, a debugging malloc.  What depends on luck shows in time.
set -u
: "${BUILD:?BUILD is the build directory}"
cd "$(dirname "$0")/../e2e" || exit 1
logs=$(mktemp -d "${TMPDIR:-/tmp}/vramscope-hosts.XXXXXX") || exit 1
ran=0 failed=0 hog=''
trap '[ -z "$hog" ] || kill $hog 2>/dev/null; rm -rf "$logs"' EXIT

conditions=(
    "plain"
    "taskset -c 0"
    "env VRAMSCOPE_SAMPLE_MS=1"
    "env VRAMSCOPE_STACKS=all"
    "env MALLOC_PERTURB_=165 MALLOC_CHECK_=3"
    "nice -n 19 taskset -c 0"
)
for ((round = 0; round < ${1:-1}; round++)); do
    condition=${conditions[round % ${#conditions[@]}]}
    if ((round % 2)); then # beside somebody who wants all cores
        (while :; do :; done) &
        hog=$!
    fi
    for test in host/*.sh hostile/*.sh roads/roads_{exit,fork,children,threads,descriptors,faults,lookups}.sh; do
        read -ra prefix <<<"${condition/plain/}"
        timeout --kill-after=10 120 "${prefix[@]}" "./$test" >"$logs/${test##*/}" 2>&1 </dev/null
        status=$?
        [ $status = 77 ] || ran=$((ran + 1))
        if [ $status != 0 ] && [ $status != 77 ]; then
            failed=$((failed + 1))
            echo "$condition $test: exit status $status"
            tail -n 15 "$logs/${test##*/}" | sed 's/^/    /'
        fi
    done
    if [ -n "$hog" ]; then
        kill "$hog"
        wait "$hog" 2>/dev/null
        hog=''
    fi
done
echo "${1:-1} rounds, $ran runs, $failed failed"
[ "$failed" = 0 ]
