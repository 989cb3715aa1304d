#!/bin/sh
# Every function of cuda.h that could allocate, free, map, import, copy or fill memory, or make a context, module, graph or stream,
# by its name or by what it returns, is hooked (driver.def) or listed with the reason why not (hooks/looked_at.def); all
# variants (_v2, _ptsz, ...) included.  A new toolkit's function so makes this fail until somebody has looked at it.
set -u
here=$(cd "$(dirname "$0")" && pwd)
command -v python3 >/dev/null || { echo "skip: python3 is not installed"; exit 77; }
include=$(sed -n 's/^CUDA_INCLUDE_DIR:[A-Z]*=//p' "$BUILD/CMakeCache.txt")
[ -f "$include/cuda.h" ] || { echo "skip: no cuda.h in '$include', where the build found CUDA's headers"; exit 77; }
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$BUILD/CMakeCache.txt")
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT || exit 1

# as a program sees it, as one with per-thread default streams does, and with the older variants declared
for define in VS_PLAIN CUDA_API_PER_THREAD_DEFAULT_STREAM __CUDA_API_VERSION_INTERNAL; do
    echo '#include <cuda.h>' | "$compiler" "-D$define" -I"$include" -E -P -x c - >>"$work/cuda.i" || exit 1
done

python3 - "$work/cuda.i" "$here/../../../shim" <<'END'
import re, sys

header = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", open(sys.argv[1], errors="replace").read())
rows = open(sys.argv[2] + "/trace/driver.def").read()
notes = open(sys.argv[2] + "/hooks/looked_at.def").read()

functions = dict(re.findall(r"\bCUresult\s+(cu\w+)\s*\(([^;{}]*)\)\s*;", header))
hooked = re.findall(r"^VS_API\(\d+, (\w+),", rows, re.M)
looked = re.findall(r'^VS_LOOKED_AT\((\w+), "([^"]*)"\)$', notes, re.M)

# the net: wide on purpose
name = re.compile(
    r"Alloc|Free|Mem|Pool|Create|Destroy|Reserve|Map|Bind|Import|Export|Ipc|Open|Close|Load|Ctx|Primary|Green"
    r"|Module|Library|Link|Limit|Graph|Array|Regist|Retain|Release|Reset|Trim|Attach|Detach|Multicast|Checkpoint|Capture"
    r"|Launch|Enable|Kernel|Func|Coredump|Resource")
returns = re.compile(
    r"\b(CUdeviceptr(_v1)?|CUarray|CUmipmappedArray|CUcontext|CUgreenCtx|CUmodule|CUlibrary|CUmemGenericAllocationHandle"
    r"|CUmemoryPool|CUexternalMemory|CUgraph|CUgraphExec|CUgraphNode|CUstream|CUevent)\s*\*\s*\w+")
caught = {f for f, parameters in functions.items() if name.search(f) or returns.search(parameters)}

failed = []
if len(functions) < 500 or len(caught) < 250:
    failed.append(f"only {len(functions)} functions were found in cuda.h, {len(caught)} to be looked at: not read right")
for f in sorted(caught - set(hooked) - {f for f, _ in looked}):
    failed.append(f"{f} is neither hooked (driver.def) nor listed with a reason (hooks/looked_at.def)")
for f, why in looked:
    if f in hooked:
        failed.append(f"{f} is hooked and listed as not hooked: take it out of hooks/looked_at.def")
    if len(why) < 5:
        failed.append(f"{f} is listed without a reason")
for line in notes.splitlines():
    if line.startswith("VS_LOOKED_AT") and not re.fullmatch(r'VS_LOOKED_AT\(\w+, "[^"]*"\)', line):
        failed.append(f"not a line of hooks/looked_at.def: {line}")
seen = set()
for f, _ in looked:
    if f in seen:
        failed.append(f"{f} is listed twice")
    seen.add(f)
for line in failed:
    print("FAIL:", line)
print(f"{len(functions)} functions, {len(caught)} of them about memory: {len(set(hooked) & caught)} hooked, {len(looked)} looked at")
sys.exit(1 if failed else 0)
END
