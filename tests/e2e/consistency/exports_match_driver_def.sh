#!/bin/sh
# libvramscope.so exports every row of driver.def, dlsym and the names of exports.map, without a version, and needs the C library alone.
set -u
here=$(cd "$(dirname "$0")" && pwd)
lib=$BUILD/lib/libvramscope.so
work=$(mktemp -d) && cd "$work" || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAIL: $1"; failed=1; }

[ -f "$lib" ] || { echo "FAIL: no $lib"; exit 1; }
command -v readelf >/dev/null || { echo "skip: readelf is not installed"; exit 77; }

# what is defined and global, by name
readelf --dyn-syms -W "$lib" | awk '$7 != "UND" && ($5 == "GLOBAL" || $5 == "WEAK") && $1 ~ /^[0-9]+:$/ {print $8}' | sort >exports
sed -nEf "$here/../lib/rows.sed" "$here/../../../shim/trace/driver.def" >table
cut -d, -f2 table | tr -d ' ' | sort >rows

[ -s rows ] || fail "driver.def has no rows"
grep '@' exports >versioned && fail "exported with a version (a hook under a version is silently dead): $(cat versioned)"
grep '^cu' exports | diff rows - >difference || fail "exports and driver.def differ: $(cat difference)"
# Beside the driver's names exactly these are exported.  Defined in others' place: the program's look-ups, PyTorch's two reports, and
# its functions that number autograd nodes and make tensors.  Called by others: NVTX's and the driver's injection, AddressSanitizer
# (init.c), PyTorch, programs (vramscope.h), the Python package, and benchmarks (pause.c).
grep -v '^cu[A-Z]' exports >others
{
    printf '%s\n' __asan_default_options dlsym dlvsym InitializeInjection InitializeInjectionNvtx2 InitializeInjectionNvtxExtension \
        vramscope_auto_push vramscope_auto_pop vramscope_auto_mark vramscope_auto_layer vramscope_auto_cell vramscope_auto_call vramscope_auto_calls vramscope_auto_model vramscope_auto_hooks vramscope_auto_phase vramscope_auto_phases vramscope_auto_roles vramscope_auto_allocator vramscope_auto_code vramscope_auto_contract vramscope_auto_takes vramscope_auto_limit vramscope_auto_finish vramscope_pool_use vramscope_benchmark_parts vramscope_benchmark_pause vramscope_benchmark_resume \
        _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE \
        _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE \
        _ZN2at15sequence_number17get_and_incrementEv \
        _ZN2at6detail13empty_genericEN3c108ArrayRefIlEEPNS1_9AllocatorENS1_14DispatchKeySetENS1_10ScalarTypeESt8optionalINS1_12MemoryFormatEE \
        _ZN2at6detail21empty_strided_genericEN3c108ArrayRefIlEES3_PNS1_9AllocatorENS1_14DispatchKeySetENS1_10ScalarTypeE \
        _ZN2at6native17resize_bytes_cudaEPN3c1011StorageImplEm _ZN2at6native27resize_bytes_cuda_with_addrEPN3c1011StorageImplEmPv
    sed -nE 's/^#define (vramscope_[a-z_]+[a-z])\(.*/\1/p' "$here/../../../shim/vramscope.h"
    grep -q '^VRAMSCOPE_ARENA:BOOL=OFF' "$BUILD/CMakeCache.txt" 2>/dev/null ||
        sed -nE 's/^VS_TORCH .*(vramscope_torch_[a-z_]+)\(.*/\1/p' "$here/../../../shim/arena/torch/abi.h"
} | sort -u >documented
[ "$(grep -c '^vramscope_' documented)" -ge 9 ] || fail "vramscope.h was not read right: $(cat documented)"
sort others | diff documented - >difference || fail "exports and what is documented differ (> exported): $(cat difference)"

# numbers and symbols of rows are unique: they are in databases
cut -d, -f1 table | sort | uniq -d >twice
[ -s twice ] && fail "numbers used twice in driver.def: $(cat twice)"
uniq -d rows >twice
[ -s twice ] && fail "symbols listed twice in driver.def: $(cat twice)"

readelf -dW "$lib" >dynamic
sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' dynamic | grep -vE '^(libc|libm)\.so\.6$|^ld-linux-[a-z0-9-]+\.so\.[0-9]$' >foreign &&
    fail "needs a library that a host may lack: $(cat foreign)"
grep -q TEXTREL dynamic && fail "has text relocations"
grep -q INITFIRST dynamic || fail "not linked -z initfirst: weak references would be seen before they are put back"
grep -q NODELETE dynamic || fail "not linked -z nodelete"
grep -q '(RPATH)\|(RUNPATH)' dynamic && fail "has a run path"
exit $failed
