#!/bin/bash
# A week at 70,000 events a second (42,336 million) in the 4 GiB of VRAMSCOPE_MAX_BYTES, at a scale of 1:64: 661.5 million events in
# 64 MiB, through ledger and store.  The file may never pass the limit.  Ten minutes on an idle core; SCALE=2048 does it in one.
#
#   BUILD=DIR tests/full/week.sh
set -u
: "${BUILD:?BUILD is the build directory}"
scale=${SCALE:-64}
bench=$BUILD/tests/bench_long
[ -x "$bench" ] || {
    echo "skipped: $bench is not built"
    exit 77
}
dir=$(mktemp -d "${TMPDIR:-/tmp}/vramscope-week.XXXXXX")
trap 'rm -rf "$dir"' EXIT
exec 2>&1
"$bench" "$(awk "BEGIN { print 42336 / $scale }")" "$(awk "BEGIN { print 4096 / $scale }")" "$dir"
