#!/bin/bash
# What each policy decides about recordings of an H200 is what it decided before: tests/data/golden/placements.txt has a digest of it. A change that
# means to decide otherwise renews that file.
set -u
BUILD=${BUILD:?the build directory}
HERE=$(cd "$(dirname "$0")" && pwd)
DATA=$HERE/../../data
[ -x "$BUILD/tests/bench_replay" ] || { echo "skipped: bench_replay is not built" && exit 77; }
command -v xz >/dev/null || { echo "skipped: no xz" && exit 77; }
D=$(mktemp -d)
trap 'rm -rf "$D"' EXIT
for name in llama-h200 llama-h200-fused qwen-h200-limit; do
    xz -dc "$DATA/$name.db.xz" >"$D/$name.db" || exit 1
done
gzip -dc "$DATA/../../examples/llama-h200-oom.db.gz" >"$D/llama-h200-oom.db" || exit 1
cd "$D" || exit 1
"$BUILD/tests/bench_replay" --digest llama-h200.db llama-h200-fused.db llama-h200-oom.db qwen-h200-limit.db \
    'llama-h200.db*20' 'qwen-h200-limit.db*5' 'llama-h200-oom.db*3' >told || exit 1
diff "$DATA/golden/placements.txt" told || { echo "FAILED: something is decided otherwise" && exit 1; }
echo "ok"
