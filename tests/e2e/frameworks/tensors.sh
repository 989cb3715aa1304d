#!/bin/bash
# Each block has what tensor it was made for, over a stand-in for libtorch; a note that nobody took goes to no other block; exceptions pass.
# With PyTorch:
# torch_tensors.sh.
set -u
here=$(cd "$(dirname "$0")" && pwd)
shim=${BUILD:?}/lib/libvramscope.so
command -v "${CXX:=g++}" >/dev/null || { echo "skip: no C++ compiler"; exit 77; }
command -v sqlite3 >/dev/null || { echo "skip: sqlite3 is not installed"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $1"; exit 1; }

# make DIRECTORY FLAG...: the five files of tensors_fake.cc, of which three are the same in each; $suffix: of libtorch_cpu's name
suffix=
make() {
    local d=$work/$1
    shift
    mkdir -p "$d"
    set -- "$CXX" -std=c++17 -O1 "$@" "$here/tensors_fake.cc"
    if [ -d "$work/new" ] && [ "$d" != "$work/new" ]; then
        cp "$work/new/libc10.so" "$work/new/libc10_cuda.so" "$work/new/main" "$d"
    else
        "$@" -DC10 -shared -fPIC -Wl,-soname,libc10.so -o "$d/libc10.so" &&
            "$@" -DC10_CUDA -shared -fPIC -Wl,-soname,libc10_cuda.so -o "$d/libc10_cuda.so" && "$@" -DMAIN -o "$d/main" -ldl
    fi &&
        "$@" -DTORCH_CPU -shared -fPIC -Wl,-soname,"libtorch_cpu$suffix.so" -o "$d/libtorch_cpu$suffix.so" &&
        "$@" -DTORCH_CUDA -shared -fPIC -Wl,-rpath,"$d" -o "$d/libtorch_cuda.so" "$d/libtorch_cpu$suffix.so" "$d/libc10.so" "$d/libc10_cuda.so" -lpthread || fail "the stand-in does not build"
}

# check WHAT DIRECTORY: the same output as without us, and what the recording says of each block
check() {
    local d=$work/$2
    "$d/main" "$d/libtorch_cuda.so" | sort >"$work/plain" || fail "$1: the program"
    LD_PRELOAD=$shim VRAMSCOPE_OUTPUT=$work/$2.db VRAMSCOPE_JOURNAL_DIR=$work "$d/main" "$d/libtorch_cuda.so" 2>"$work/err" | sort >"$work/with" ||
        { cat "$work/err"; fail "$1: the program under us"; }
    diff "$work/plain" "$work/with" || fail "$1: the real functions get something else (> under us)"
    sqlite3 "$work/$2.db" "SELECT size_bytes, ifnull(made_for, '?'), request_bytes, element_type, shape FROM allocation ORDER BY alloc_seq LIMIT 18" |
        diff - "$work/wanted" || fail "$1: blocks (> wanted)"
    sqlite3 "$work/$2.db" "SELECT size_bytes, made_for, request_bytes, element_type, shape, count(*) FROM allocation a
        WHERE alloc_seq > (SELECT alloc_seq FROM allocation ORDER BY alloc_seq LIMIT 1 OFFSET 17) GROUP BY 1, 2, 3, 4, 5 ORDER BY 1" |
        diff - "$work/wanted_threads" || fail "$1: two threads (> wanted)"
    [ "$(sqlite3 "$work/$2.db" "SELECT state FROM contract WHERE name = 'torch_tensors'")" = proven ] || fail "$1: the arguments are not proven"
    [ "$(sqlite3 "$work/$2.db" "SELECT t.request_bytes, t.element_type, t.shape FROM oom o JOIN tensor_text t ON t.id = o.tensor")" = "16384|float32|[4096]" ] ||
        fail "$1: the refused tensor"
    # there is no driver, so no device is known
    "$here/../../oracle/oracle.py" check "$work/$2.db" 2>&1 | grep -v 'there is no such device' >"$work/oracle" && fail "$1: the oracle: $(head -n 5 "$work/oracle")"
    echo "ok $1"
}

cat >"$work/wanted" <<'END'
1024|?|||
1536|tensor|1280|bfloat16|[4, 20, 8]
512|tensor|4|float32|[]
512|tensor|84|float32|[3, 5]
4096|raw|||
2048|raw|||
4096|raw|||
3072|storage|3000||
6144|storage|6000||
512|raw|||
512|?|||
2048|?|||
2048|?|||
2048|raw|||
16384|raw|||
512|tensor|198|float16|[99]
1024|tensor|600|float16|
4194304|?|||
END
cat >"$work/wanted_threads" <<'END'
16384|tensor|16000|float16|[1000, 8]|200
32256|tensor|32000|float16|[2000, 8]|200
1048576|raw||||50
2097152|raw||||50
END
make new
check "torch 2.3 on" new

# other arguments than these functions had so far: the program gets what it would, and nothing is made of them
make shifted -DSHIFTED
"$work/shifted/main" "$work/shifted/libtorch_cuda.so" | sort >"$work/plain" || fail "other arguments"
LD_PRELOAD=$shim VRAMSCOPE_VERBOSE=1 VRAMSCOPE_OUTPUT=$work/shifted.db VRAMSCOPE_JOURNAL_DIR=$work "$work/shifted/main" "$work/shifted/libtorch_cuda.so" 2>"$work/err" |
    sort >"$work/with" || fail "other arguments under us: $(cat "$work/err")"
diff "$work/plain" "$work/with" || fail "other arguments: the real functions get something else (> under us)"
[ "$(sqlite3 "$work/shifted.db" "SELECT state FROM contract WHERE name = 'torch_tensors'")" = broken ] || fail "other arguments are not noticed"
[ "$(sqlite3 "$work/shifted.db" "SELECT count(*) FROM allocation WHERE made_for = 'tensor'")" = 0 ] || fail "tensors were made of other arguments"
grep -q '^vramscope: PyTorch: blocks have no element types and shapes: it makes tensors with other arguments' "$work/err" || fail "it is not said: $(cat "$work/err")"
echo "ok other arguments"

# two PyTorches in one process: each makes its own tensors, in either order
suffix=-0123 # as auditwheel does; with one name the linker would take the first one's
make other '-DWHO="the other one"'
for order in 'new other' 'other new'; do
    # shellcheck disable=SC2086 # two words
    set -- $order
    "$work/$1/main" "$work/$1/libtorch_cuda.so" "$work/$2/libtorch_cuda.so" | sort >"$work/plain" || fail "two PyTorches"
    LD_PRELOAD=$shim VRAMSCOPE_OUTPUT=$work/two.db VRAMSCOPE_JOURNAL_DIR=$work "$work/$1/main" "$work/$1/libtorch_cuda.so" "$work/$2/libtorch_cuda.so" 2>"$work/err" |
        sort >"$work/with" || fail "two PyTorches under us: $(cat "$work/err")"
    grep -q '^the other one' "$work/plain" && diff "$work/plain" "$work/with" || fail "two PyTorches, $order: whose tensors (> under us)"
done
echo "ok two PyTorches in one process"

# a library that was made for a PyTorch with CUDA, and its own one has none: an exception, as far as it gets to call
"$CXX" -std=c++17 -O1 -DEXTENSION -shared -fPIC -Wl,-z,lazy -Wl,-rpath,"$work/new" -o "$work/extension.so" "$here/tensors_fake.cc" \
    -Wl,--no-as-needed "$work/new/libtorch_cpu.so" || fail "the extension does not build"
LD_PRELOAD=$shim VRAMSCOPE_OUTPUT=$work/extension.db "$work/new/main" "$work/extension.so" >"$work/with" 2>&1
grep -q '^not made: .*undefined symbol: _ZN2at6native17resize_bytes_cuda' "$work/with" && grep -q '^left in dlerror: nothing' "$work/with" ||
    fail "a library that lacks a function: $(cat "$work/with")"
echo "ok a library that lacks a function"

# what peak says: every tensor, to the byte, and what is none
"$BUILD/bin/vramscope" peak --by=tensor --bytes --top=0 "$work/new.db" >"$work/peak" || fail "peak"
for row in 'bfloat16 \[4, 20, 8\] +1536 .* 1$' 'float16 \[2000, 8\] +6451200 .* 200$' 'resized storage +9216 .* 2$' 'float16 of unknown shape +1024 ' 'raw bytes +' 'not known +4199936 .* 5$'; do
    grep -qE "^ +$row" "$work/peak" || fail "peak does not say '$row': $(cat "$work/peak")"
done
"$BUILD/bin/vramscope" peak --by=tensor --json --top=0 "$work/new.db" | tr -d ' \n' >"$work/json"
grep -q '{"made_for":"tensor","element_type":"bfloat16","shape":"\[4,20,8\]","request_bytes":1280,"line":null,"role":null,"old_role":null,"category":null,"size_bytes":1536,"allocations":1}' "$work/json" ||
    fail "peak --json: $(grep -o '"by_tensor.*' "$work/json")"
grep -q '{"made_for":"raw","element_type":null,"shape":null,"request_bytes":null,' "$work/json" || fail "peak --json: what raw bytes were asked for is not known"
echo "ok peak --by=tensor"

# an out-of-memory says what tensor was refused
for command in report 'peak --at=oom' 'peak --by=tensor --at=oom'; do
    # shellcheck disable=SC2086 # options
    COLUMNS=1000 "$BUILD/bin/vramscope" $command "$work/new.db" >"$work/text"
    grep -q '[Aa]sked for 16.00 KiB, float32 \[4096\]' "$work/text" || fail "$command does not say the refused tensor: $(head -n 5 "$work/text")"
    # shellcheck disable=SC2086 # likewise
    "$BUILD/bin/vramscope" $command --json "$work/new.db" | tr -d ' \n' >"$work/json"
    grep -q '"requested_bytes":16384,"made_for":"tensor","element_type":"float32","shape":"\[4096\]","request_bytes":16384,' "$work/json" || fail "$command --json: the refused tensor"
done
# an export for PyTorch's tools has blocks and requests; imported again both are so still
if "$BUILD/bin/vramscope" export --format=pytorch -o "$work/new.pickle" "$work/new.db" 2>"$work/err"; then
    "$BUILD/bin/vramscope" import -o "$work/back.db" "$work/new.pickle" >"$work/text" 2>&1 || fail "import: $(cat "$work/text")"
    sqlite3 "$work/new.db" "SELECT size_bytes, request_bytes FROM allocation ORDER BY alloc_seq" >"$work/asked"
    sqlite3 "$work/back.db" "SELECT size_bytes, request_bytes FROM allocation WHERE op = 'block_alloc' ORDER BY alloc_seq" | diff "$work/asked" - >"$work/diff" ||
        fail "requests (< recorded, > exported and imported): $(head -n 5 "$work/diff")"
    COLUMNS=1000 "$BUILD/bin/vramscope" report --all "$work/back.db" | grep -q "sizes are blocks', and what was requested of each is known as far as its recording had it" || fail "the import does not say what sizes are"
else
    fail "export: $(cat "$work/err")"
fi
# a recording without tensors says so, and has no table that is about nothing
sqlite3 "$work/new.db" "DELETE FROM tensor"
"$BUILD/bin/vramscope" peak --by=tensor "$work/new.db" >"$work/text" || fail "peak without tensors"
grep -q 'what tensors blocks were made for is not in this recording: --by=line' "$work/text" && ! grep -q 'not known' "$work/text" || fail "peak without tensors: $(cat "$work/text")"
"$BUILD/bin/vramscope" report --all "$work/new.db" | grep -q 'asked for 16.00 KiB: ' || fail "a refused request that nothing more is known of"
echo "ok the refused tensor, and none"
