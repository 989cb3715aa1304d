#!/bin/bash
# Each function that PyTorch's libraries import from CUDA's has a stand-in of that name and version: of all PyTorchs that are here.
. "$(dirname "$0")/../lib/lib.bash"
command -v readelf >/dev/null || skip "there is no readelf"

# functions UND|DEF FILE...: name@version, or the name alone; one a line.
functions() {
    local which=$1
    shift
    readelf -W --dyn-syms "$@" 2>/dev/null | awk -v undefined="$([ "$which" = UND ] && echo 1 || echo 0)" \
        '$1 ~ /^[0-9]+:$/ && ($7 == "UND") == undefined && $8 != "" {sub(/@@/, "@", $8); print $8}'
}
needed() { readelf -d "$@" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

functions DEF "$BUILD"/dry/*.so.* | sort -u >"$dir/have"
[ "$(wc -l <"$dir/have")" -gt 1000 ] || fail "the stand-ins export $(wc -l <"$dir/have") functions"
# Versions by which a function says whose it is, and the names of libraries without any.
sed -n 's/.*@/@/p' "$dir/have" | sort -u >"$dir/versions"
unversioned='^(cuFile|cusparseLt|nccl)[A-Z]'

held=0
for python in "${TEST_PYTHON:-}" "$here"/../../../build/deps/torch/*/bin/python; do
    [ -x "$python" ] || continue
    libraries=$("$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])' 2>/dev/null)/lib
    [ -f "$libraries/libtorch_cuda.so" ] || continue
    grep -qxF "$libraries" "$dir/seen" 2>/dev/null && continue
    echo "$libraries" >>"$dir/seen"
    functions UND "$libraries"/*.so >"$dir/all"
    { grep -F -f "$dir/versions" "$dir/all"; grep -v @ "$dir/all" | grep -E "$unversioned"; } | sort -u >"$dir/wanted"
    [ "$(wc -l <"$dir/wanted")" -gt 300 ] || fail "$libraries: it imports $(wc -l <"$dir/wanted") functions of CUDA"
    missing=$(comm -23 "$dir/wanted" "$dir/have")
    [ -z "$missing" ] || fail "$libraries imports what has no stand-in: $(tr '\n' ' ' <<<"$missing")"
    for soname in $(needed "$libraries"/*.so | grep -E '^lib(cu[a-z]|nv[A-Zrs]|nccl)' | sort -u); do
        [ -f "$BUILD/dry/$soname" ] || [ -f "$BUILD/sim/$soname" ] || [ -f "$libraries/$soname" ] || fail "$libraries needs $soname, which has no stand-in"
    done
    echo "ok $libraries: $(wc -l <"$dir/wanted") functions"
    held=$((held + 1))
done
[ "$held" -gt 0 ] || skip "there is no PyTorch built for CUDA"
