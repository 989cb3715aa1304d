# shellcheck shell=bash
# dry.bash - sourced behind lib.bash: runs a program of Python's with PyTorch as `vramscope fit` does, without its verdict.
#
#   dry PROGRAM ARGUMENT...    under the stand-ins and the shim: $run/out, $run/err, $run/facts, $db, $status
#   plain PROGRAM ARGUMENT...  the same without what is done within PyTorch
#   expect_facts KIND <<END    the places that were told, each once: file:line|what|assumed|how often
#
# steps=N is where it ends (all), under dry_env=(NAME=value ...) it gets these variables.
: "${TEST_PYTHON:=python3}"
"$TEST_PYTHON" -c 'import importlib.util
exec(open(importlib.util.find_spec("torch").origin.replace("__init__", "version")).read())
raise SystemExit(not cuda)' 2>/dev/null || skip "$TEST_PYTHON has no PyTorch for CUDA (TEST_PYTHON)"
[ -f "$BUILD/dry/libcudart.so.13" ] || skip "the stand-ins are not built"
steps=all dry_env=() follow=1

dry() {
    local behind='' library
    for library in "$BUILD"/sim/*.so* "$BUILD"/dry/*.so*; do behind=$behind:$library; done
    new_run
    timeout --kill-after=1 $limit env LD_PRELOAD="$shim$behind" LD_LIBRARY_PATH="$BUILD/sim:$BUILD/dry" SIMCUDA_DRY=1 VRAMSCOPE_OUTPUT="$db" \
        VRAMSCOPE_JOURNAL_DIR="$run" PYTHONPATH="$python${PYTHONPATH:+:$PYTHONPATH}" VRAMSCOPE_DRY=$follow VRAMSCOPE_DRY_FACTS="$run/facts" \
        VRAMSCOPE_DRY_STEPS="$steps" "${dry_env[@]}" "$TEST_PYTHON" "$@" >"$run/out" 2>"$run/err" </dev/null
    # shellcheck disable=SC2034 # the tests look at it
    status=$?
    touch "$run/facts"
}
python=$(cd "${BASH_SOURCE[0]%/*}/../../../shim/framework/python" && pwd)

plain() { follow=0 dry "$@"; }

expect_facts() {
    awk -F '\t' -v kind="$1" '$1 == kind { n = split($2, part, "/"); key = part[n] "|" $3 "|" $4; if (!(key in times)) order[++count] = key; times[key] += $5 }
        END { for (i = 1; i <= count; i++) print order[i] "|" times[order[i]] }' "$run/facts" >"$run/told"
    cat >"$run/wanted"
    diff "$run/wanted" "$run/told" >"$run/difference" || fail "places (< wanted, > told):
$(cat "$run/difference")"
}
