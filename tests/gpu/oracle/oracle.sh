#!/bin/bash
# oracle.sh TREE OUT [PROGRAM...] - is every allocation recorded? Real programs on the GPU, held against CUPTI. PROGRAM: all that need
# one GPU unless named; torch_ddp and torch_fsdp need two. OUT gets coverage.md (the table), coverage.json, coverage.log, and
# failures.tar.gz.
#
# Every program runs plain, under the oracle, under vramscope (which gives the residual), and under both (which gives the comparison).
# CUPTI itself may change what a program does, so output is compared with and without it. The runs under vramscope alone are
# measured, and made one by one; of the others four are made at a time.
. "$(dirname "$0")/../gpu.bash"
shift 2
one_gpu="static_cudart torch_eager torch_expandable torch_async torch_graphs torch_graphs_async torch_offload jax_bfc
jax_platform cupy_pools"
read -r -a programs <<<"$(tr '\n' ' ' <<<"${*:-$one_gpu}")"
began=$SECONDS

# Multicast objects are never made here: a mistake with them takes the whole machine.
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export CUBLAS_WORKSPACE_CONFIG=:4096:8 PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 XLA_PYTHON_CLIENT_MEM_FRACTION=.2
export XLA_FLAGS=--xla_gpu_autotune_level=0 TF_CPP_MIN_LOG_LEVEL=2

skip() {
    echo "SKIP: $*"
    exit 77
}

build() {
    mkdir "$work/bin"
    "$here/build_oracle.sh" "$work/bin" || return
    case " ${programs[*]} " in
    *" static_cudart "*)
        PATH=$PATH:/usr/local/cuda/bin nvcc -std=c++17 -O1 -arch=native -cudart static -o "$work/bin/static_cudart" \
            "$here/programs/static_cudart.cu" || return 1
        ;;
    esac
}

# ---- the programs ----

# command_of NAME: sets `settings` (environment) and `command`.
command_of() {
    local run="python3 -m torch.distributed.run --standalone --nproc_per_node=2"
    settings=() command=(python3 "$here/programs/$1.py")
    case $1 in
    static_cudart) command=("$work/bin/static_cudart") ;;
    torch_expandable) settings=(PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True PYTORCH_ALLOC_CONF=expandable_segments:True) ;;
    torch_async | torch_graphs_async)
        settings=(PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync PYTORCH_ALLOC_CONF=backend:cudaMallocAsync)
        ;;
    jax_platform) settings=(XLA_PYTHON_CLIENT_ALLOCATOR=platform) ;;
    torch_ddp | torch_fsdp)
        read -r -a command <<<"$run"
        command+=("$here/programs/torch_ranks.py" "${1#torch_}")
        ;;
    esac
    case $1 in
    torch_expandable | torch_async) command=(python3 "$here/programs/torch_eager.py") ;;
    torch_graphs_async) command=(python3 "$here/programs/torch_graphs.py") ;;
    jax_*) command=(python3 "$here/programs/jax_step.py") ;;
    esac
}

# run_one NAME WAY: plain, cupti, shim or oracle (cupti and shim together), into $work/NAME/WAY.
run_one() {
    local dir=$work/$1/$2 settings command from
    mkdir -p "$dir"
    command_of "$1"
    settings+=(ORACLE_FACTS="$dir")
    case $2 in shim | oracle) settings+=(LD_PRELOAD="$tree/lib/libvramscope.so" VRAMSCOPE_OUTPUT="$dir/vramscope-%p.db") ;; esac
    case $2 in cupti | oracle) settings+=(CUDA_INJECTION64_PATH="$work/bin/liboracle.so" ORACLE_LOG="$dir") ;; esac
    from=$(date +%s%N)
    (cd "$dir" && timeout --kill-after=10 150 env "${settings[@]}" "${command[@]}" >stdout 2>stderr </dev/null)
    echo $? >"$dir/status"
    echo $((($(date +%s%N) - from) / 1000000)) >"$dir/ms"
    # what libraries' destructors did after the recording's end is still in its journal
    case $2 in shim | oracle) "$tree/bin/vramscope" recover "$dir"/*.db >"$dir/recover" 2>&1 ;; esac
}

several() { # several WAY: every program that way, four at a time
    local name running=0
    for name in "${programs[@]}"; do
        run_one "$name" "$1" &
        running=$((running + 1))
        if [ $running -ge 4 ]; then
            wait -n
            running=$((running - 1))
        fi
    done
    wait
}

# ---- all of it ----

[ -e /dev/nvidiactl ] || skip "there is no GPU here"
build
case $? in
0) ;;
77) exit 77 ;;
*)
    echo "oracle.sh: building the oracle or a program failed (see above)"
    exit 1
    ;;
esac
echo "built after $((SECONDS - began)) s"
several plain
echo "plain runs done after $((SECONDS - began)) s"
several cupti
echo "runs with the oracle alone done after $((SECONDS - began)) s"
several oracle
echo "runs with both done after $((SECONDS - began)) s"
for name in "${programs[@]}"; do
    run_one "$name" shim
    for db in "$work/$name/shim"/*.db; do # vramscope's own words on the residual, beside ours
        [ -e "$db" ] && "$tree/bin/vramscope" report --json "$db" >"$db.report" 2>&1
    done
done
echo "runs under vramscope alone done after $((SECONDS - began)) s"
python3 "$here/coverage.py" "$work" "$out" "${programs[@]}"
status=$?
if [ $status -ne 0 ]; then # what is needed to look into it, 40 MiB at most
    (cd "$work" && find . -type f \( -name 'oracle-*.log' -o -name '*.db' -o -name std\* -o -name 'facts-*' \) -size -8M -print0 |
        tar -czf "$work/failures.tar.gz" --null -T -)
    [ "$(stat -c %s "$work/failures.tar.gz")" -lt 40000000 ] && cp "$work/failures.tar.gz" "$out/"
fi
cat "$out/coverage.md"
echo "took $((SECONDS - began)) s"
exit $status
