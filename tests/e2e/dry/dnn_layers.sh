#!/bin/bash
# What PyTorch asks of cuDNN goes through without a GPU, in all layouts and settings.  Figures that were measured on an H200 count as known, others
# are told as guesses.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
find_torch
limit=280
dry "$python" "$here/dnn_layers.py"
[ "$status" = 0 ] || fail "status $status"
! grep -q ^missing "$run/facts" || fail "$(grep ^missing "$run/facts")"
tail -n 1 "$run/out" | grep -q '^[1-9][0-9]* layers$' || fail "$(cat "$run/out")"
grep -qP '^guess\tcudnn\t(forward|data|filter) ' "$run/facts" || fail "nothing is said of shapes that nobody measured"

dry "$python" "$here/dnn_layers.py" resnet
[ "$status" = 0 ] || fail "status $status"
if grep -q '^91900 ' "$run/out" && grep -q ^guess "$run/facts"; then fail "guesses of what was measured: $(head -n 3 "$run/facts")"; fi
echo "ok $(tail -n 1 "$run/out")"
