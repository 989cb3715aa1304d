# shellcheck shell=bash
# lib.bash - sourced by the end-to-end tests: runs a program with and without the shim and asks its database.
#
#   run_shimmed PROGRAM ARG...     both runs; output and exit status must be the same.  Sets $run, $db, $status
#   shimmed COMMAND...             only the run under the shim, in a fresh directory
#   expect_events [WHERE] <<END    the whole event list: op|space|api|size|device|status
#   expect_sql SQL EXPECTED        one answer
#   expect_clean [MISMATCHES]      the file is complete: closed in good order, nothing lost, no (other) mismatch, no leavings
#   recover_run                    completes $db from the journal that a killed process left in $run
#   undisturbed QUESTION COMMAND...  runs it again while the answer is 0: the machine stopped it where that matters
#   has_arena                      whether the build has one
#   find_pythons                   $pythons: commands that start each CPython from 3.10 on that is here; those of TEST_PYTHONS
#                                  (separated by colons) and of scripts/interpreters.sh too
#   fail WHAT..., skip WHY
#   $here, $SRC, $V, $tests, $shim   the test's folder, the sources, the command, the build's programs, the library
#
# Under `shim_env=(NAME=value ...)` both runs get these variables.  The last drain may take longer than by default.
set -u
: "${BUILD:?BUILD is the build directory}"
BUILD=$(cd "$BUILD" && pwd)
# shellcheck disable=SC2034 # the tests use them
here=$(cd "$(dirname "$0")" && pwd) SRC=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd) V=$BUILD/bin/vramscope
tests=$BUILD/tests
shim=$BUILD/lib/libvramscope.so
dir=$(mktemp -d "${TMPDIR:-/tmp}/vramscope-e2e.XXXXXX")
trap 'rm -rf "$dir"' EXIT
runs=0 run='' db='' status=0
# The ring's default holds each program whole, and there is a wait for all of it at the end: on a busy machine the drain's
# thread may get no processor for as long as a program runs.  Programs with more events, and tests of the end, set their own.
export VRAMSCOPE_EXIT_MS=60000
export COLUMNS=200 # no name in a table is cut
unset CUDA_VISIBLE_DEVICES # of the machine that the tests run on
shim_env=()
export LD_LIBRARY_PATH=$BUILD/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

find_pythons() {
    local given p what seen=
    pythons=()
    IFS=: read -r -a given <<<"${TEST_PYTHONS:-}"
    for p in "${given[@]}" "${TEST_PYTHON:-python3}" /usr/bin/python3 /usr/bin/python3.* "$HOME"/.pyenv/versions/*/bin/python3 /opt/*/bin/python3 \
        "${BASH_SOURCE[0]%/*}"/../../../build/deps/python/*/python3; do
        what=$("$p" -c 'import sys, ctypes
if sys.version_info >= (3, 10) and sys.implementation.name == "cpython": print(sys.version, sys.prefix)' 2>/dev/null) || continue
        # every interpreter once, by its own word for where it is
        case $what,$seen in ,* | *"[$what]"*) continue ;; esac
        seen="${seen}[$what]"
        pythons+=("$p")
    done
    [ ${#pythons[@]} -gt 0 ] || skip "there is no CPython 3.10 or later"
}

fail() {
    echo "FAIL: $*"
    [ -z "$run" ] || for f in "$run"/err "$run"/out; do
        [ ! -s "$f" ] || { echo "--- ${f##*/}:" && tail -n 20 "$f"; }
    done
    exit 1
}
skip() {
    echo "skipped: $*"
    exit 77
}
# whether the build has the arena (cmake -DVRAMSCOPE_ARENA)
has_arena() { ! grep -q '^VRAMSCOPE_ARENA:BOOL=OFF' "$BUILD/CMakeCache.txt" 2>/dev/null; }
[ -f "$shim" ] || skip "$shim is not built"
command -v sqlite3 >/dev/null || skip "there is no sqlite3 command"

new_run() {
    runs=$((runs + 1))
    run=$dir/$runs
    db=$run/run.db
    mkdir -p "$run"
}

limit=60 # seconds for one run: a program that hangs is a failure, not a hang of the tests
shimmed() {
    new_run
    timeout --kill-after=1 $limit env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$db" VRAMSCOPE_JOURNAL_DIR="$run" "${shim_env[@]}" "$@" \
        >"$run/out" 2>"$run/err" </dev/null
    status=$?
}

run_shimmed() {
    local plain
    env "${shim_env[@]}" "$@" >"$dir/plain.out" 2>"$dir/plain.err" </dev/null
    plain=$?
    shimmed "$@"
    [ "$status" = "$plain" ] || fail "$*: exit status $status under the shim, $plain without"
    cmp -s "$dir/plain.out" "$run/out" || fail "$*: other output: $(diff "$dir/plain.out" "$run/out" | head -n 10)"
    cmp -s "$dir/plain.err" "$run/err" || fail "$*: other stderr: $(diff "$dir/plain.err" "$run/err" | head -n 10)"
}

# undisturbed QUESTION COMMAND...: runs it, and again while the database's answer is 0 or NULL, as the machine stopped the program at
# a moment that matters; three times at most.  What else the answer is, and how a run ends, is judged at once.
undisturbed() {
    local question=$1 answer try
    shift
    for try in 1 2 3; do
        "$@"
        case $status in
        0 | 137) ;;
        *) fail "$*: status $status" ;;
        esac
        answer=$(ask "$question")
        case $answer in
        1) return 0 ;;
        0 | '') echo "$*: stopped by the machine, or a fault, in run $try of 3" ;;
        *) fail "$*: $answer" ;;
        esac
    done
    fail "$*: the machine stopped each of three runs, or a fault: $question"
}
# What nothing is heard of for 50 ms counts as direct: whether no allocation waited for its report as long as that.
heard_of="SELECT max(gap) < 40000000 FROM (SELECT op, lag(op) OVER w AS before, t_ns - lag(t_ns) OVER w AS gap FROM event
    WHERE op IN ('alloc', 'phys_create', 'block_alloc') WINDOW w AS (ORDER BY seq)) WHERE op = 'block_alloc' OR before = 'phys_create'"
# The driver is asked at the end for as long as 50 ms: whether it has answered since what is reserved last moved.
asked_last="SELECT (SELECT max(t_ns) FROM sample WHERE device = 0) >
    (SELECT max(t_ns) FROM (SELECT t_ns, reserved_bytes <> lag(reserved_bytes, 1, -1) OVER (ORDER BY seq) AS moved FROM event WHERE device = 0 AND op <> 'sample') WHERE moved)"
# What a context, a module or a limit takes is asked within 20 ms, and 50 in all: whether each was answered.
answered="SELECT count(*) = 0 FROM event WHERE op IN ('context_create', 'context_destroy', 'module_load', 'module_unload', 'limit') AND size_bytes IS NULL"

ask() {
    [ -f "$db" ] || fail "no database was written ($db)"
    sqlite3 -batch -noheader "$db" "$1" 2>&1
}

expect_sql() {
    local got
    got=$(ask "$1") || fail "$1: $got"
    [ "$got" = "$2" ] || fail "$1: '$got', not '$2'"
}

# Samples and pools' figures come when they come; a test that wants them asks for them.  Contexts and what else has a cost
# but no memory of the program's is in the lists of the tests that are about it (costs='').
columns="op || '|' || space || '|' || ifnull(api, '') || '|' || ifnull(size_bytes, 'unknown') || '|' || device || '|' || status"
costs="'context_create', 'context_destroy', 'module_load', 'module_unload', 'limit', 'overhead'"
expect_events() {
    ask "SELECT $columns FROM event WHERE (${1:-op <> 'sample'}) AND op NOT IN ($costs) ORDER BY seq" >"$run/events"
    cat >"$run/wanted"
    diff "$run/wanted" "$run/events" >"$run/difference" || fail "events (< wanted, > recorded):
$(cat "$run/difference")"
}

expect_clean() {
    expect_sql "PRAGMA integrity_check" ok
    expect_sql "SELECT value FROM meta WHERE key = 'clean_end'" 1
    expect_sql "SELECT end_ns IS NOT NULL, simulated > 0 FROM process" '1|1'
    expect_sql "SELECT events, why FROM loss" ''
    expect_sql "SELECT what FROM mismatch" "${1:-}"
    local left
    left=$(find "$run" -name '*.vsj' -o -name '*-wal' -o -name '*-shm')
    [ -z "$left" ] || fail "left behind: $left"
}

# shellcheck disable=SC2034 # for expect_sql
unknown_frees="SELECT ifnull(sum(value), 0) FROM counter WHERE name = 'unknown_frees'"

# The databases of $run: a process that finds its name taken puts its pid in.
databases() {
    find "$run" -name '*.db' | sort
}
recover_run() {
    local journal
    journal=$(find "$run" -name '*.vsj')
    [ -n "$journal" ] || fail "there is no journal to recover from"
    if [ -x "$BUILD/bin/vramscope" ]; then
        "$BUILD/bin/vramscope" recover "$journal" >"$run/recover" 2>&1
    else
        "$tests/prog_recover" "$journal" >"$run/recover" 2>&1
    fi || fail "recover: $(cat "$run/recover")"
}
