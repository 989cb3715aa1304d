#!/bin/bash
# doctor says what works and what to do where something does not, of drivers, tools, PyTorch, the tree and the output; its status is 1 only
# where recording
# fails.
. "$(dirname "$0")/../lib/lib.bash"
export COLUMNS=400 # tables in full
vramscope=$BUILD/bin/vramscope
[ -x "$vramscope" ] || skip "$vramscope is not built"
command -v cc >/dev/null || skip "there is no C compiler"
new_run

doctor() { # STATUS ARG...: runs it, output in $run/out
    local wanted=$1
    shift
    "$vramscope" doctor "$@" >"$run/out" 2>"$run/err"
    status=$?
    [ "$status" = "$wanted" ] || fail "doctor $*: exit status $status, not $wanted"
}
says() { # VERDICT TOPIC TEXT
    grep -qE "^$1 +$2 .*$3" "$run/out" || fail "no line '$1 $2 ... $3'"
}
advises() {
    grep -q -- "-> .*$1" "$run/out" || fail "no advice '$1'"
}

ends() { # TEXT: the last line, what will work
    tail -n 1 "$run/out" | grep -q "^so: .*$1" || fail "it ends '$(tail -n 1 "$run/out")', not '$1'"
}

doctor 0
ends "programs of CUDA's driver API can be recorded here, on the simulated driver; PyTorch can't use that one"
says ok shim 'libvramscope.so needs .*libc.so.6'
says ok preload 'starts and ends'
says ok 'call stacks' 'libvramscope-unwind.so'
says warn driver 'SIMULATED'
says ok 'device 0' 'simulated: no GPU'
says ok NVML 'tells processes apart'
if has_arena; then
    says ok 'arena 0' 'can serve: chunks of 2.00 MiB'
    (ulimit -v 8000000 && doctor 0 --quick) || exit 1
    says warn 'arena 0' 'ulimit -v is 7.63 GiB'
    advises 'raise ulimit -v beyond'
    SIMCUDA_FAIL=cuMemAddressReserve:2=2 doctor 0
    says warn 'arena 0' 'only 1 of 3 windows of 8.00 GiB'
    SIMCUDA_FAIL=cuMemGetAllocationGranularity:1=801 doctor 0
    says warn 'arena 0' 'no virtual memory management'
    advises "leaves this device to the driver's own allocator"
fi

# a driver with a form of a hooked function that is newer than we are
mkdir -p "$dir/newer"
cat >"$dir/newer.c" <<'END'
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int *n) { *n = 0; return 0; }
int cuMemAlloc_v2(void) { return 0; }
int cuMemAlloc_v7(void) { return 0; }
END
cc -shared -fPIC -o "$dir/newer/libcuda.so.1" "$dir/newer.c" -Wl,-soname,libcuda.so.1 || fail "the newer driver does not build"
LD_LIBRARY_PATH=$dir/newer "$vramscope" doctor --quick >"$run/out" 2>"$run/err"
says warn driver 'has cuMemAlloc_v7, which this vramscope does not know'
[ "$(grep -c 'does not know' "$run/out")" = 1 ] || fail "it knows a function that it does hook, or says a thing twice"

"$vramscope" doctor --json >"$run/json" || fail "--json"
if command -v python3 >/dev/null; then
    python3 -c 'import json,sys; d=json.load(open(sys.argv[1])); assert d["verdict"]=="warn" and all(f["topic"] and f["found"] for f in d["findings"])' "$run/json" ||
        fail "--json is no JSON"
fi

SIMCUDA_NVML=nopid doctor 0 --quick
SIMCUDA_NVML=nopid doctor 0
says warn NVML 'does not show this process'
advises 'pid namespace'

# drivers that are none
mkdir "$dir/crash" "$dir/fails"
echo 'int cuInit(unsigned x) { return *(volatile int *)8; }' | cc -shared -fPIC -x c - -o "$dir/crash/libcuda.so.1"
LD_LIBRARY_PATH=$dir/crash doctor 1
says FAIL driver 'crashed \(signal 11\)'
ends 'nothing can be recorded here: driver: asking the driver: crashed'
echo 'int cuInit(unsigned x) { return 100; }' | cc -shared -fPIC -x c - -o "$dir/fails/libcuda.so.1"
LD_LIBRARY_PATH=$dir/fails doctor 0
says warn driver 'cuInit fails with error 100'
ends 'no GPU can be used here, so there is nothing to record; recordings made elsewhere can be read'
advises 'CUDA_VISIBLE_DEVICES'

# no gnuplot, no Python, no sqlite3
mkdir "$dir/bin"
PATH=$dir/bin doctor 0
says warn gnuplot 'not found'
says ok Python 'no python3'

# a Python that has a PyTorch
mkdir -p "$dir/site/torch/lib" "$dir/site/torch-2.11.0.dist-info"
: >"$dir/site/torch/__init__.py"
printf 'Metadata-Version: 2.1\nName: torch\nVersion: 2.11.0\n' >"$dir/site/torch-2.11.0.dist-info/METADATA"
torch() {
    echo "$1" | cc -shared -fPIC -x c - -o "$dir/site/torch/lib/libc10_cuda.so"
}
if command -v python3 >/dev/null; then
    usage=_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE oom=_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE
    torch "void $usage(void); void $oom(void); void f(void) { $usage(); $oom(); }"
    PYTHONPATH=$dir/site doctor 0
    says ok PyTorch '2.11.0 reports its blocks'
    # what dies of us, what dies by itself, and what does not hold, each by a module in torch's place
    cat >"$dir/site/torch/__init__.py" <<'END'
import os, signal
if "libvramscope" in os.environ.get("LD_PRELOAD", ""):
    os.kill(os.getpid(), signal.SIGSEGV)
END
    PYTHONPATH=$dir/site doctor 0
    says warn PyTorch '2.11.0: a program of a few lines ends with status 139 under the library'
    advises 'run --stacks=driver'
    echo 'raise ImportError("libcudart")' >"$dir/site/torch/__init__.py"
    PYTHONPATH=$dir/site doctor 0
    says warn PyTorch '2.11.0: not tried: import torch fails, without vramscope too'
    cat >"$dir/site/torch/__init__.py" <<'END'
import ctypes
class ones:
    grad = property(lambda self: self)
    def __init__(self, *size, **more): pass
    def __mul__(self, other): return self
    def __float__(self): return 8.0
    def register_hook(self, hook): hook(self)
    def sum(self): return self
    def backward(self): ctypes.PyDLL(None)._ZN2at15sequence_number17get_and_incrementEv()
END
    nodes=_ZN2at15sequence_number17get_and_incrementEv
    echo "long $nodes(void) { return 0; } int _ZN5torch8autograd25get_current_graph_task_idEv(void) { return -1; }
        long _ZN2at14RecordFunction15currentThreadIdEv(void) { return 1; }
        void *_ZN5torch8autograd16get_current_nodeEv(void) { return 0; }" | cc -shared -fPIC -x c - -o "$dir/site/torch/lib/libtorch_cpu.so"
    sed -i "1a ctypes.CDLL('$dir/site/torch/lib/libtorch_cpu.so')" "$dir/site/torch/__init__.py"
    printf "__version__ = '2.99.1'\n" >"$dir/site/torch/version.py"
    sed -i '1i # first' "$dir/site/torch/version.py"
    PYTHONPATH=$dir/site doctor 0
    says warn PyTorch 'PyTorch 2.99.1: lines and layers of backward are not known: its nodes are held otherwise than in 1.8 to 2.15'
    : >"$dir/site/torch/__init__.py"
    rm "$dir/site/torch/lib/libtorch_cpu.so"
    # a driver that does not say that it is simulated plays a real one
    mkdir "$dir/real"
    cat >"$dir/real.c" <<'END'
#include <stddef.h>
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)1 << 33; return 0; }
END
    cc -shared -fPIC -o "$dir/real/libcuda.so.1" "$dir/real.c" -Wl,-soname,libcuda.so.1 || fail "the played driver does not build"
    LD_LIBRARY_PATH=$dir/real PYTHONPATH=$dir/site doctor 0
    ends 'programs that use the GPU can be recorded here, if they are not linked statically, with native call stacks; PyTorch tensor by tensor$'
    LD_LIBRARY_PATH=$dir/real doctor 0 --quick
    ends 'with native call stacks$'
    # doctor looks for the very names that the library defines
    for name in $usage $oom; do
        nm -D --defined-only "$BUILD/lib/libvramscope.so" | grep -qw "$name" || fail "libvramscope.so does not define $name"
        strings -a "$BUILD/bin/vramscope" | grep -qx "$name" || fail "doctor does not look for $name"
    done
    torch "void $usage(void); void f(void) { $usage(); }"
    PYTHONPATH=$dir/site doctor 0
    says warn PyTorch 'out-of-memory report has an unknown name'
    torch 'void other(void); void f(void) { other(); }'
    PYTHONPATH=$dir/site doctor 0
    says warn PyTorch 'a name that vramscope does not know'
    LD_LIBRARY_PATH=$dir/real PYTHONPATH=$dir/site doctor 0
    ends 'of PyTorch what it asks of the driver$'
    rm "$dir/site/torch/lib/libc10_cuda.so"
    PYTHONPATH=$dir/site doctor 0
    says warn PyTorch 'a CPU build'
fi

# an installation that is not whole
mkdir -p "$dir/tree/bin" "$dir/tree/lib"
cp "$vramscope" "$dir/tree/bin/"
vramscope=$dir/tree/bin/vramscope
doctor 1 --quick
says FAIL shim 'No such file'
cp "$BUILD/lib/libvramscope.so" "$dir/tree/lib/"
doctor 0 --quick
says warn 'call stacks' 'libvramscope-unwind.so'
says warn 'fused loss' 'there is no .*/lib/liblinear_cross_entropy.so'
if [ -d "$dir/real" ]; then
    LD_LIBRARY_PATH=$dir/real doctor 0 --quick
    ends 'without native call stacks$'
fi
echo 'int lce_open(void) { return 1; }' | cc -shared -fPIC -x c - -o "$dir/tree/lib/liblinear_cross_entropy.so"
doctor 0 --quick
says ok 'fused loss' 'for the CPU alone'
advises 'build vramscope where nvcc is'
echo 'int nothing;' | cc -shared -fPIC -x c - -o "$dir/tree/lib/libvramscope.so"
doctor 1 --quick
says FAIL preload 'was not loaded'
echo broken >"$dir/tree/lib/libvramscope.so"
doctor 1 --quick
says FAIL shim 'no shared library'

vramscope=$BUILD/bin/vramscope
# run makes the directories of its -o; a file is none, and where no file can be made permissions and room say nothing
may_write() { # PLACE: or there is little room, which is said in the same place
    grep -qE "^(ok +output +$1 is writable|warn +output +$1 has .* free)" "$run/out" || fail "not a word of 'output $1'"
}
doctor 0 --quick -o "$run/not/there/"
may_write "$run/not/there/, which .run. makes, in $run"
(cd "$run" && doctor 0 --quick -o not/there && may_write 'not/there, which .run. makes, in \.') || exit 1
doctor 0 --quick -o "$run"
may_write "$run"
[ ! -e "$run/not" ] && [ -z "$(find "$run" -name '.vramscope-doctor*')" ] || fail "doctor leaves something in its -o"
: >"$run/file.db"
for where in file.db file.db/below; do
    doctor 1 --quick -o "$run/$where"
    says FAIL output 'file.db.* is not a directory|Not a directory'
done
doctor 1 --quick -o "$run/file.db"
says FAIL output "$run/file.db is not a directory"
doctor 1 --quick -o /proc
says FAIL output "/proc can't be written to"
doctor 2 --nonsense
[ "$(wc -l <"$run/err")" = 1 ] || fail "one line for an unknown option"
doctor 2 operand
echo ok
