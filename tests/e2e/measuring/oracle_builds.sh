#!/bin/bash
# The oracle builds without a warning from the CUPTI of this machine, knows every function of it that could move memory,
# and needs nothing of vramscope.
set -u
cd "$(dirname "$0")/../../.." || exit 1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
fail() {
    echo "FAIL  $*"
    bad=1
}

tests/gpu/oracle/build_oracle.sh "$dir" >"$dir/log" 2>&1
status=$?
if [ $status = 77 ]; then
    grep SKIP "$dir/log"
    exit 77
fi
[ $status = 0 ] || fail "it does not build: $(cat "$dir/log")"
grep -qi 'warning' "$dir/log" && fail "it builds with warnings: $(cat "$dir/log")"
[ -s "$dir/unknown" ] && fail "calls.py knows nothing of $(tr '\n' ' ' <"$dir/unknown")"

exports=$(nm -D --defined-only "$dir/liboracle.so" | awk '{ print $3 }')
[ "$exports" = InitializeInjection ] || fail "it exports more than the driver calls: $exports"
nm -D --undefined-only "$dir/liboracle.so" | grep vramscope && fail "it needs vramscope"
nm -D --undefined-only "$dir/liboracle.so" | grep -w 'cu[A-Z].*' && fail "it calls the driver itself"

# a function that calls.py does not know must not go unseen: with one taken out of its lists, it is found
sed 's/^call("cuMemCreate"/call("cuMemNever"/' tests/gpu/oracle/calls.py >"$dir/calls.py"
include=$(sed -n 's/^CUPTI: \([^,]*\),.*/\1/p' "$dir/log")
[ "$(python3 "$dir/calls.py" unknown "$include")" = cuMemCreate ] || fail "a forgotten function is not found"

[ $bad = 0 ] && echo "the oracle builds, and knows what this CUPTI has"
exit $bad
