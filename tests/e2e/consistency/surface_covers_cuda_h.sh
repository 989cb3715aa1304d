#!/bin/bash
# Every function of the driver's headers has a row in driver.def, with the signature and the version that they say, or a reason in
# hooks/looked_at.def.
# The headers are the build's and the newest that scripts/setup.sh test could fetch: a new CUDA makes this fail until somebody has looked at
# it.
set -u
root=$(cd "$(dirname "$0")/../../.." && pwd)
command -v python3 >/dev/null || { echo "skip: python3 is not installed"; exit 77; }
include=$(sed -n 's/^CUDA_INCLUDE_DIR:[A-Z]*=//p' "$BUILD/CMakeCache.txt")
[ -f "$include/cuda.h" ] || { echo "skip: no cuda.h in '$include', where the build found CUDA's headers"; exit 77; }
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$BUILD/CMakeCache.txt")
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT || exit 1

cat >"$work/held.py" <<'END'
import re, sys

include, text, shim = sys.argv[1:]
header = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", open(text, errors="replace").read())
definitions = re.sub(r"^VS_APIS\((\d+), (\d+), (\w+), (\w+), (\w+), (\d+), (\d+),", r"VS_API(\1, \3, \5, \6, LEGACY,\nVS_API(\2, \3\4, \5, \7, PTSZ,",
                     open(shim + "/trace/driver.def").read(), flags=re.M)
rows = re.findall(r"^VS_API\((\d+), (\w+), (\w+), (\d+), (\w+),", definitions, re.M)
notes = open(shim + "/hooks/looked_at.def").read()
groups = re.findall(r'^VS_LOOKED_AT\(((?:"[^"]*"\s*)+),([\w,\s]+)\)$', notes, re.M)
looked = [(f, why) for why, names in groups for f in re.split(r",\s+", names.strip())]
hooked, listed = {row[1] for row in rows}, {f for f, _ in looked}

functions = set(re.findall(r"\bCUresult\s+(cu\w+)\s*\([^;{}]*\)\s*;", header))
version = int(re.search(r"^#define CUDA_VERSION (\d+)", open(include + "/cuda.h", errors="replace").read(), re.M).group(1))
cuda = f"CUDA {version // 1000}.{version % 1000 // 10}"
types = set(re.findall(r"\bPFN_(cu\w+_v\d+\w*)", open(include + "/cudaTypedefs.h", errors="replace").read()))
for more in ("cudaGL.h", "cudaEGL.h", "cudaVDPAU.h"):  # which want headers that are not here
    try:
        functions |= set(re.findall(r"\bCUresult\s+CUDAAPI\s+(cu\w+)\s*\(", open(f"{include}/{more}", errors="replace").read()))
    except FileNotFoundError:
        pass

failed = []
if len(functions) < 500 or len(types) < 500:
    failed.append(f"only {len(functions)} functions and {len(types)} of their types were found: not read right")
for f in sorted(functions - hooked - listed):
    failed.append(f"{f} of {cuda} is neither hooked (driver.def) nor listed with a reason (hooks/looked_at.def)")
for f in sorted(hooked & listed):
    failed.append(f"{f} is hooked and listed as not hooked: take it out of hooks/looked_at.def")
for f in sorted(f for f in listed if [g for g, _ in looked].count(f) > 1):
    failed.append(f"{f} is listed twice")
for f, why in looked:
    if len(why) < 5:
        failed.append(f"{f} is listed without a reason")
if len(groups) != len(re.findall(r"^VS_LOOKED_AT", notes, re.M)):
    failed.append("hooks/looked_at.def has a group that is not read right")
for _, symbol, base, since, stream in rows:
    suffix = re.search(r"(_pt[ds][sz])?$", symbol).group(0)
    if int(since) <= version and f"{base}_v{since}{suffix}" not in types:
        failed.append(f"{symbol} is not of {since}: {cuda} has no PFN_{base}_v{since}{suffix}")
for line in failed:
    print("FAIL:", line)
print(f"{cuda}: {len(functions)} functions, {len(functions & hooked)} of them hooked")
sys.exit(1 if failed else 0)
END

# held INCLUDE: the tables, against the headers there.
held() {
    local define
    : >"$work/cuda.i"
    # as a program sees it, as one with per-thread default streams does, and with the older variants declared
    for define in VS_PLAIN CUDA_API_PER_THREAD_DEFAULT_STREAM __CUDA_API_VERSION_INTERNAL; do
        echo '#include <cuda.h>' | "$compiler" "-D$define" -I"$1" -E -P -x c - >>"$work/cuda.i" || return 1
    done
    python3 "$work/held.py" "$1" "$work/cuda.i" "$root/shim" || return 1
    # what is declared in cuda.h and defined here must be the same
    "$compiler" -fsyntax-only -w -I"$root/shim" -isystem "$1" "$root/shim/hooks/wrappers.c"
}

held "$include" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
newest=$root/build/deps/newest/include
[ -f "$newest/cuda.h" ] || {
    echo "skip: NOT HELD AGAINST THE NEWEST CUDA, whose headers scripts/setup.sh test fetches from PyPI into build/deps/newest; $(tail -n 1 "$work/log")"
    exit 77
}
held "$newest" >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cat "$work/log"

# the test itself must be able to fail: by a function that nobody has looked at, by a wrong version, by a wrong signature
may_fail() { # WHAT SCRIPT FILE
    cp -r "$root/shim" "$work/tree" && sed -i "$2" "$work/tree/$3" || exit 1
    (root=$work && mv "$work/tree" "$work/shim" && held "$newest") >"$work/log" 2>&1 && { echo "$1 would go unnoticed"; exit 1; }
    rm -rf "$work/shim"
}
may_fail "a new function" 's/\<cuMemAdvise, //' hooks/looked_at.def
may_fail "a wrong version" '/^VS_API(10,/s/3020/3010/' trace/driver.def
may_fail "a wrong signature" 's/unsigned int, flags, CUdevice, device))$/unsigned long, flags, CUdevice, device))/' trace/driver.def
