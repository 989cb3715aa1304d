#!/bin/bash
# limit.sh TREE OUT - `vramscope run --limit`: none of eleven roads to the driver, and none of PyTorch's, JAX's and CuPy's, passes it.
#
# TREE: an installed vramscope.  Needs gcc and cuda.h (CUDA_INCLUDE); JAX and CuPy where they are there.  A minute.  Ends with "N passed, N failed";
# exit 77 without a GPU.
. "$(dirname "$0")/gpu.bash"
need pynvml
export PYTHONDONTWRITEBYTECODE=1
gcc -O1 -I"${CUDA_INCLUDE:-/usr/local/cuda/include}" "$here/../e2e/limit/prog_limit.c" -o "$work/prog_limit" -ldl -lpthread -l:libcuda.so.1 || exit 1

# limited NAME LIMIT [run's options] -- COMMAND...: COMMAND judges itself
limited() {
    local name=$1 limit=$2 options=()
    shift 2
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    timeout -k 5 100 "$V" run -q -f -o "$out/$name.db" --limit="$limit" "${options[@]}" "$@" >"$out/$name.log" 2>&1
    verdict $? "$name: $(tail -n 1 "$out/$name.log" | cut -c1-160)"
}

for road in alloc large small pitch create create_alone pool own_pool array graph threads; do
    limited "$road" 8GiB -- "$work/prog_limit" "$road" 8192
done
for road in alloc large pool threads; do
    limited "arena-$road" 8GiB --allocator=arena -- "$work/prog_limit" "$road" 8192
done
limited context 100MiB -- "$work/prog_limit" context 100
limited torch 20GiB -- "$python" "$here/limit.py" torch 20
PYTORCH_ALLOC_CONF=expandable_segments:True limited torch-expandable 20GiB -- "$python" "$here/limit.py" torch 20
PYTORCH_ALLOC_CONF=backend:cudaMallocAsync limited torch-async 20GiB -- "$python" "$here/limit.py" torch 20
limited torch-arena 20GiB --allocator=arena -- "$python" "$here/limit.py" torch 20
for way in jax cupy; do
    "$python" -c "import $way" 2>/dev/null && limited "$way" 20GiB -- "$python" "$here/limit.py" "$way" 20 || skip "$way is not there"
done
said=$("$V" report "$out/torch.db" | tr -s ' \n' ' ')
grep -q 'under the limit of 20.00 GiB (vramscope run --limit)' <<<"$said"
verdict $? "the report names the limit: ${said:0:160}"
chmod -R a+rX "$tree" "$work" 2>/dev/null
if command -v setpriv >/dev/null; then
    mkdir -p "$work/nobody" && chmod 777 "$work/nobody" && chmod a+x "$work"
    (cd "$work/nobody" && timeout 60 setpriv --reuid=65534 --regid=65534 --clear-groups "$V" run -q -f -o "$work/nobody/run.db" --limit=8GiB -- "$work/prog_limit" alloc 8192 >"$out/nobody.log" 2>&1)
    verdict $? "without root: $(tail -n 1 "$out/nobody.log")"
fi
counted
