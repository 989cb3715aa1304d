#!/bin/bash
# A recording starts and goes on on the system's smallest stack, on an alternate one in a signal handler, 90 MiB deep, and in more threads than there
# are ids for.
. "$(dirname "$0")/../lib/lib.bash"
allocations="SELECT count(*) FROM event WHERE op = 'alloc'"
live="SELECT count(*) FROM allocation WHERE free_seq IS NULL"

for stacks in off driver all; do
    shim_env=("VRAMSCOPE_STACKS=$stacks")
    while read -r way count; do
        # "first": nothing was allocated before, so the recording starts right there
        for first in '' first; do
            # shellcheck disable=SC2086
            run_shimmed "$tests/prog_tight" $way $first
            expect_sql "$allocations" $((count + (${#first} == 0)))
            expect_sql "$live" 0
            expect_clean
        done
    done <<<$'tiny 800\naltstack 200\nhuge 1'
done

shim_env=(VRAMSCOPE_STACKS=all)
for first in '' first; do
    # shellcheck disable=SC2086
    run_shimmed "$tests/prog_tight" many $first
    expect_sql "$allocations" $((10240 + (${#first} == 0)))
    expect_sql "SELECT count(DISTINCT thread) >= 512 FROM event WHERE op = 'alloc'" 1
    expect_sql "$live" 0
    expect_clean
done

# Who is no more to be told apart is "unknown", counted, and loses no event.
shim_env=(VRAMSCOPE_STACKS=off)
run_shimmed "$tests/prog_tight" ids
expect_sql "$allocations" 9217
expect_sql "$live" 0
expect_sql "SELECT count(DISTINCT thread) BETWEEN 8180 AND 8191 FROM event WHERE op = 'alloc' AND thread IN (SELECT id FROM thread)" 1
expect_sql "SELECT DISTINCT code FROM loss" table_full
echo "every stack was enough"
