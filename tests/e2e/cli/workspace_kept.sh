#!/bin/bash
# A workspace that backward makes and keeps, as cuBLAS's in PyTorch's allocator, is not told as kept gradients; a tensor kept so is. The recording is
# of adapters on an H200 (tests/gpu/unseen), with 32 MiB of workspace, 14 % of its peak.
. "$(dirname "$0")/../lib/lib.bash"
V=$BUILD/bin/vramscope data=$(cd "$(dirname "$0")/../../data" && pwd)
command -v xz >/dev/null || skip "no xz"
xz -dc "$data/lora-h200.db.xz" >"$dir/lora.db" || fail "the recording cannot be read"
"$V" report --all "$dir/lora.db" >"$dir/report" || fail "report ended with $?"
[ "$(sqlite3 "$dir/lora.db" "SELECT sum(size_bytes) >> 20 FROM live_at_peak WHERE made_for = 'raw' AND phase = 'backward' AND category = 'framework block'")" = 32 ] ||
    fail "another recording: $(head -n 20 "$dir/report")"
! grep -A2 '^    kept:' "$dir/report" || fail "a workspace is told as gradients"
# the same block as a tensor's
sqlite3 "$dir/lora.db" "UPDATE kind SET tensor = (SELECT min(tensor) FROM kind WHERE tensor IN (SELECT id FROM tensor_text WHERE made_for = 'tensor'))
    WHERE tensor IN (SELECT id FROM tensor_text WHERE made_for = 'raw');
    UPDATE peak_live SET tensor = (SELECT min(id) FROM tensor_text WHERE made_for = 'tensor') WHERE tensor IN (SELECT id FROM tensor_text WHERE made_for = 'raw')"
"$V" report --all "$dir/lora.db" >"$dir/tensor" || fail "report ended with $?"
grep -q '^    kept: 32.00 MiB of it was made in backward by earlier steps' "$dir/tensor" || fail "a tensor that was kept is not told: $(head -n 25 "$dir/tensor")"
echo "a workspace is not told as gradients that were kept"
