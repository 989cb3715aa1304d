# shellcheck shell=bash
# lib.bash - sourced by the end-to-end tests: runs a program with and without the shim and asks its database.
#
#   run_shimmed PROGRAM ARG...   both runs; output and exit status must be the same.  Sets $run, $db, $status
#   shimmed COMMAND...           the run under the shim alone, in a fresh directory
#   expect_events [WHERE] <<END  the whole event list: op|space|api|size|device|status
#   expect_sql SQL EXPECTED      one answer
#   expect_clean [MISMATCHES]    closed in good order, nothing lost, no (other) mismatch, no leavings
#   recover_run                  completes $db from the journal that a killed process left in $run
#   find_torch                   $python, which has PyTorch built for CUDA, or skips
#   has_modules PYTHON MODULE... whether it has them; none is imported, as PyTorch takes more than a second
#   has_arena, in_full           whether the build has an arena; whether tests/run.sh full runs the test, which then tries more
#   find_pythons                 $pythons: the oldest CPython from 3.10 on and the newest, in_full each, with those of TEST_PYTHONS (a:b)
#   fail WHAT..., skip WHY
#   $here, $SRC, $V, $tests, $shim  the test's folder, the sources, the command, the build's programs, the library
#
# Under `shim_env=(NAME=value ...)` both runs get these variables.  slowly, seen, killed_when_written: below.
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

oldest_and_newest() {
    for p in "${pythons[@]}"; do "$p" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3], sys.argv[1])' "$p"; done | sort -V | sed -n '1p;$p' | cut -d' ' -f2- | uniq
}
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
    in_full || { mapfile -t pythons < <(oldest_and_newest) && [ ${#pythons[@]} -gt 0 ]; } || fail "which of ${pythons[*]} is the oldest?"
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
has_modules() { "$1" -c 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))' "${@:2}" 2>/dev/null; }
find_torch() {
    python=${TEST_PYTHON:-python3}
    "$python" -c 'import importlib.util as u, os, sys
sys.exit(not os.path.exists(os.path.join(u.find_spec("torch").submodule_search_locations[0], "lib", "libtorch_cuda.so")))' 2>/dev/null ||
        skip "$python has no PyTorch built for CUDA: TEST_PYTHON=\$(scripts/torch.sh 2.11.0 | tail -n 1)"
}
# whether the build has the arena (cmake -DVRAMSCOPE_ARENA)
has_arena() { ! grep -q '^VRAMSCOPE_ARENA:BOOL=OFF' "$BUILD/CMakeCache.txt" 2>/dev/null; }
in_full() { [ -n "${FULL:-}" ]; }
[ -f "$shim" ] || skip "$shim is not built"
command -v sqlite3 >/dev/null || skip "there is no sqlite3 command"

new_run() {
    runs=$((runs + 1))
    run=$dir/$runs
    db=$run/run.db
    mkdir -p "$run"
}

limit=300 # seconds for one run: a program that hangs is a failure, not a hang of the tests, and one that gets no processor is none
shimmed() {
    new_run
    timeout --kill-after=1 $limit env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$db" VRAMSCOPE_JOURNAL_DIR="$run" ${GO:+GO="$GO"} "${shim_env[@]}" "$@" \
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

# slowly COMMAND...: CLOCK_MONOTONIC hardly moves for what it runs under the shim (slow_clock.c): each question of the driver is
# waited for, and an allocation for its report, however busy the machine is.
slowly() {
    local shim="$shim:$tests/libslow_clock.so"
    local -x SLOW_CLOCK=${SLOW_CLOCK:-100}
    "$@"
}

# seen QUESTION... -- COMMAND...: what it runs under the shim waits at `go(1)`, `go(2)`, ... (prog.h) until the recording's answer to
# the first QUESTION is 1, to the second, ...
seen() {
    local watcher questions=() question recording=$dir/$((runs + 1))/run.db GO=$dir/go-$((runs + 1))
    for (( ; $# > 0; )); do
        question=$1
        shift
        [ "$question" != -- ] || break
        questions+=("$question")
    done
    for question in "${!questions[@]}"; do
        until [ -s "$recording" ] && [ "$(sqlite3 -batch "$recording" "${questions[question]}" 2>/dev/null)" = 1 ]; do
            kill -0 $$ 2>/dev/null || exit # the test failed
            sleep 0.05
        done
        : >"$GO.$((question + 1))"
    done &
    watcher=$!
    "$@"
    kill $watcher 2>/dev/null
    wait $watcher 2>/dev/null
}

# killed_when_written COMMAND...: is killed when most of the blocks that its first word counts are in its database; it waits for that.
killed_when_written() {
    local pid blocks
    new_run
    env LD_PRELOAD="$shim" VRAMSCOPE_OUTPUT="$db" VRAMSCOPE_JOURNAL_DIR="$run" "${shim_env[@]}" "$@" >"$run/out" 2>"$run/err" </dev/null &
    pid=$!
    until [ -s "$db" ] && read -r blocks _ <"$run/out" &&
        [ "$(sqlite3 -batch "$db" "SELECT count(*) * 10 >= $blocks * 9 FROM event WHERE op = 'block_alloc'" 2>/dev/null)" = 1 ]; do
        kill -0 $pid 2>/dev/null || fail "$*: it ended by itself"
        sleep 0.05
    done
    kill -KILL $pid
    wait $pid 2>/dev/null
    status=$?
}

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
    "$V" recover "$journal" >"$run/recover" 2>&1 || fail "recover: $(cat "$run/recover")"
}
