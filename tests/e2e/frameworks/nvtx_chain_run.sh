#!/bin/bash
# run in front of a command that already has an NVTX tool: the tool sees what it saw before, the program's output is the
# same, and the recording has the ranges.
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
gcc "${flags[@]}" -shared -fPIC -o "$dir/tool.so" "$here/nvtx_tool.c" || fail "the tool does not build"

# a phase of each allocation, in order
phases() { sqlite3 "$1" "SELECT group_concat(phase, ' ') FROM (SELECT phase FROM event WHERE op = 'alloc' ORDER BY seq)"; }

NVTX_INJECTION64_PATH=$dir/tool.so "$dir/program" >"$dir/alone.out" 2>/dev/null
[ "$(grep -c '^tool: ' "$dir/alone.out")" -ge 6 ] || fail "the tool alone saw little: $(cat "$dir/alone.out")"
NVTX_INJECTION64_PATH=$dir/tool.so VRAMSCOPE_PHASES='logits=my*' "$V" run --simulated -q -o "$dir/chained.db" -- "$dir/program" >"$dir/out" 2>"$dir/err"
status=$?
[ $status = 5 ] || fail "exit status $status: $(cat "$dir/err")"
diff "$dir/alone.out" "$dir/out" || fail "the tool or the program says something else (< alone, > under run)"
[ "$(phases "$dir/chained.db")" = "forward forward logits" ] || fail "phases: $(phases "$dir/chained.db")"

# without a tool, and without a rule: a range of another name is recorded and names no phase
"$V" run --simulated -q -o "$dir/single.db" -- "$dir/program" >"$dir/out" 2>"$dir/err"
[ "$(phases "$dir/single.db")" = "forward forward none" ] || fail "phases without a rule: $(phases "$dir/single.db")"
got=$(sqlite3 "$dir/single.db" "SELECT name, ifnull(phase, '-'), source FROM range ORDER BY id")
[ "$got" = $'forward|forward|nvtx\nncclAllReduce|none|nvtx\nmy loss|none|nvtx' ] || fail "ranges: $got"

# a tool that is not there: one line at most, the program runs on
NVTX_INJECTION64_PATH=$dir/nowhere.so "$V" run --simulated -q -o "$dir/nowhere.db" -- "$dir/program" >"$dir/out" 2>"$dir/err"
status=$?
[ $status = 5 ] && [ "$(cat "$dir/out")" = "done" ] || fail "a tool that is not there: status $status: $(cat "$dir/out" "$dir/err")"
[ "$(phases "$dir/nowhere.db")" = "forward forward none" ] || fail "a tool that is not there: $(phases "$dir/nowhere.db")"
echo "both tools see the ranges"
