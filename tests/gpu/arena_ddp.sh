#!/bin/bash
# arena_ddp.sh TREE OUT - two GPUs under the arena: DistributedDataParallel over NCCL gives the losses that it gives without,
# collectives and copies carry the right words, both ranks are recorded. NCCL shares memory by cuMem and by CUDA IPC
# (NCCL_CUMEM_ENABLE=0). Two minutes; exit 77 without two GPUs.
. "$(dirname "$0")/gpu.bash"
"$python" -c 'import torch, sys; sys.exit(torch.cuda.device_count() < 2)' 2>/dev/null || { echo "SKIP: no two GPUs, or no PyTorch for $python"; exit 77; }
# multicast can put the host's GPUs out of service
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=4 VRAMSCOPE_STACKS=off NCCL_DEBUG=WARN
keep() { (cd "$work" && tar -czf "$out/ddp.tgz.part" -- * && mv "$out/ddp.tgz.part" "$out/ddp.tgz"); }

# try NAME COMMAND...
try() {
    local name=$1 start=$SECONDS status
    shift
    timeout --kill-after=20 90 "$@" >"$work/$name.log" 2>&1
    status=$?
    if [ $status = 0 ]; then
        echo "ok    $name ($((SECONDS - start)) s): $(grep -v '^\[' "$work/$name.log" | tail -n 1)"
    else
        echo "FAIL  $name (status $status, $((SECONDS - start)) s)"
        grep -E 'FAIL|Error|error|WARN' "$work/$name.log" | head -n 12
        tail -n 8 "$work/$name.log"
        failed=1
    fi
    keep
}
job() { try "$1" "${run[@]}" "$python" -m torch.distributed.run --standalone --nproc-per-node 2 "$here/arena_ddp.py" --facts "$work/$1.json"; }
arena() { run=("$V" run -o "$work/$1.d/run.db" --allocator=arena --) && mkdir -p "$work/$1.d"; }

run=()
job native
NCCL_CUMEM_ENABLE=0 job native-ipc
arena arena && job arena
arena arena-ipc && NCCL_CUMEM_ENABLE=0 job arena-ipc
# cudaMalloc served by the arena, under PyTorch's own caching allocator
mkdir -p "$work/arena-under.d"
run=(env VRAMSCOPE_ALLOCATOR=arena VRAMSCOPE_OUTPUT="$work/arena-under.d/%r-%p.db" LD_PRELOAD="$shim")
job arena-under
try copies-native "$python" "$here/arena_ddp.py" --copies
arena copies && try copies-arena "${run[@]}" "$python" "$here/arena_ddp.py" --copies
"$python" "$here/arena_ddp.py" --verify "$work" || failed=1
keep
echo "took $SECONDS s"
exit "$failed"
