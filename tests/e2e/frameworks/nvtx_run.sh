#!/bin/bash
# Under run the recording has a program's NVTX ranges; where the program has an NVTX tool already, that one keeps them, and run says so.
include=$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "${BUILD:?}/CMakeCache.txt" 2>/dev/null)
[ -f "${include:-/usr/local/cuda/include}/nvtx3/nvToolsExt.h" ] || { echo "SKIPPED: no nvtx3 headers"; exit 77; }
. "$(dirname "$0")/../lib/lib.bash"
command -v gcc >/dev/null || skip "no gcc here"
export VRAMSCOPE_JOURNAL_DIR=$dir

cat >"$dir/program.c" <<'C'
#include "prog.h"
#include <nvtx3/nvToolsExt.h>
int main(void)
{
    CUdeviceptr p;
    begin();
    nvtxRangePushA("forward");
    OK(cuMemAlloc(&p, MIB));
    nvtxRangePushA("ncclAllReduce"); /* names no phase */
    OK(cuMemAlloc(&p, 2 * MIB));
    nvtxRangePop();
    nvtxRangePop();
    nvtxRangePushA("my loss");
    OK(cuMemAlloc(&p, 3 * MIB));
    nvtxRangePop();
    puts("done");
    return 5;
}
C
flags=(-isystem "${include:-/usr/local/cuda/include}" -I"$here/../lib" -I"$here/../../../shim")
gcc "${flags[@]}" -o "$dir/program" "$dir/program.c" "$BUILD/sim/libcuda.so.1" -ldl || fail "the program does not build"

# a phase of each allocation, in order
phases() { sqlite3 "$1" "SELECT group_concat(phase, ' ') FROM (SELECT phase FROM event WHERE op = 'alloc' ORDER BY seq)"; }

# a range of another name is recorded and names no phase
"$V" run --simulated -q -o "$dir/single.db" -- "$dir/program" >"$dir/out" 2>"$dir/err"
[ "$(phases "$dir/single.db")" = "forward forward none" ] || fail "phases: $(phases "$dir/single.db")"
got=$(sqlite3 "$dir/single.db" "SELECT name, ifnull(phase, '-'), source FROM range ORDER BY id")
[ "$got" = $'forward|forward|nvtx\nncclAllReduce|none|nvtx\nmy loss|none|nvtx' ] || fail "ranges: $got"

# another tool's variable stays as it is
NVTX_INJECTION64_PATH=$dir/other.so "$V" run --simulated -q -o "$dir/other.db" -- sh -c 'echo "$NVTX_INJECTION64_PATH"; exec "$0"' "$dir/program" >"$dir/out" 2>"$dir/err"
status=$?
[ $status = 5 ] && [ "$(cat "$dir/out")" = "$dir/other.so"$'\n'"done" ] || fail "another tool: status $status: $(cat "$dir/out" "$dir/err")"
[ "$(grep -v ^simcuda: "$dir/err")" = "vramscope: run: NVTX_INJECTION64_PATH names $dir/other.so: it gets NVTX's ranges, and the recording has none" ] || fail "another tool: $(cat "$dir/err")"
[ "$(phases "$dir/other.db")" = "none none none" ] || fail "another tool: $(phases "$dir/other.db")"
echo "the recording has the ranges, or another tool"
