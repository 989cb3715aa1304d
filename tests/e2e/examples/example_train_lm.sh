#!/bin/bash
# The example's loss falls, is the same for the same seed, and what is wrong with its input or machine is one line.
set -u
: "${BUILD:?where the build is}"
train=$BUILD/bin/train_lm
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "FAIL: $*"
    exit 1
}
small=(--steps 40 --vocab 300 --hidden 32 --batch 128)

# expect_line STATUS PATTERN COMMAND...: the exit status, and one line on stderr that matches.
expect_line() {
    local status=$1 pattern=$2 got
    shift 2
    "$@" >"$dir/out" 2>"$dir/all"
    got=$?
    grep -v '^simcuda: ' "$dir/all" >"$dir/err" # the simulated driver names itself
    [ $got = "$status" ] || fail "$*: exit status $got, not $status: $(cat "$dir/err")"
    [ "$(wc -l <"$dir/err")" = 1 ] || fail "$*: not one line: $(cat "$dir/err")"
    grep -qE "$pattern" "$dir/err" || fail "$*: '$(cat "$dir/err")' does not say $pattern"
}

# Without any driver it starts and says so (a machine with a real driver cannot show this).
if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
    expect_line 1 'no CUDA driver' env -u LD_LIBRARY_PATH "$train" "${small[@]}"
fi
export LD_LIBRARY_PATH=$BUILD/sim
expect_line 2 'not a whole number' "$train" --steps none
expect_line 2 'wants a value' "$train" --vocab
expect_line 2 'no such option' "$train" --frob
expect_line 2 'no such loss' "$train" --loss magic
expect_line 2 'No such file' "$train" "$dir/missing.txt"
printf 'short' >"$dir/short.txt"
expect_line 2 'too few' "$train" "$dir/short.txt"

[[ $("$train" --device) == simcuda* ]] || fail "--device does not name the simulated device"
text=$(dirname "$0")/../../../LICENSE
"$train" "${small[@]}" "$text" >"$dir/first" || fail "training failed: $(tail -n 1 "$dir/first")"
"$train" "${small[@]}" "$text" >"$dir/second" || fail "training failed the second time"
tail -n 1 "$dir/first" | grep -q '^ok: loss' || fail "no verdict: $(tail -n 1 "$dir/first")"
cmp <(grep '^step' "$dir/first") <(grep '^step' "$dir/second") || fail "the same seed gave other losses"
"$train" "${small[@]}" --seed 2 "$text" | grep '^step' >"$dir/third"
cmp -s <(grep '^step' "$dir/first") "$dir/third" && fail "another seed gave the same losses"
"$train" "${small[@]}" --loss fused "$text" | grep '^step' >"$dir/fused" || fail "training with the fused loss failed"
paste "$dir/fused" <(grep '^step' "$dir/first") | awk '{ d = $4 - $8; bad += d > 0.001 || d < -0.001 } END { exit bad || NR < 4 }' ||
    fail "the fused loss is not the naive one: $(cat "$dir/fused")"
echo "train_lm learns, repeats itself and explains itself"
