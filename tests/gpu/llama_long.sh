#!/bin/bash
# llama_long.sh TREE OUT - a whole Llama 3.1 8B (random weights, bf16) trains on one sequence of 131,072 tokens within a GPU of 80
# GiB: fused loss, checkpoints and optimizer states in the host's memory. Then the same with the eager loss, and with nothing
# offloaded, as far as they go.
#
# LLAMA_LONG_TOKENS, LLAMA_LONG_LAYERS (32), LLAMA_LONG_LIMIT: GiB for PyTorch (78: the context needs some), LLAMA_LONG_SECONDS (270).
# Needs 70 GiB of host memory that can be pinned, and TREE's kernels; 60 s a step on an H200. With two GPUs, the runs that end for
# want of memory go beside it.
python=python3
. "$(dirname "$0")/gpu.bash"
need
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$tree/share/vramscope/examples:$tree/share/vramscope/python
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
tokens=${LLAMA_LONG_TOKENS:-131072} layers=${LLAMA_LONG_LAYERS:-32} limit=${LLAMA_LONG_LIMIT:-78} end=${LLAMA_LONG_SECONDS:-270}
IFS=, read -r -a gpus <<<"${CUDA_VISIBLE_DEVICES:-$(python3 -c 'import torch; print(*range(torch.cuda.device_count()), sep=",")')}"

# cuDNN's attention takes half of the time of PyTorch's flash attention, where it can be had for these shapes
attention=$(python3 - <<'END' 2>/dev/null
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
q, k = (torch.randn(1, heads, 256, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True) for heads in (32, 8))
try:
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
        torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True).sum().backward()
    torch.cuda.synchronize()
    print("cudnn")
except RuntimeError:
    print("flash")
END
)
attention=${attention:-flash}

# train GPU NAME STEPS OPTION...: recorded, for at most what is left of the time
train() {
    local gpu=$1 name=$2 steps=$3 left=$((end - SECONDS - 8)) status
    shift 3
    [ "$left" -gt 10 ] || { echo "$name: not run, $SECONDS s are over"; return 2; }
    CUDA_VISIBLE_DEVICES=$gpu timeout --signal=TERM --kill-after=10 "$left" "$tree/bin/vramscope" run -o "$out/$name.db" -- python3 "$tree/share/vramscope/examples/torch_llama.py" \
        --layers "$layers" --tokens "$tokens" --batch 1 --steps "$steps" --warmup 2 --attention "$attention" --memory-limit "$limit" \
        --facts "$out/$name.json" "$@" >"$out/$name.log" 2>&1
    status=$?
    echo "== $name: status $status after $SECONDS s, attention by $attention"
    [ $status = 124 ] && echo "$name was ended after $left s: LLAMA_LONG_SECONDS is $end"
    grep -E '^(step|max_memory|[0-9]+ parameters)|OutOfMemoryError' "$out/$name.log" | cut -c 1-300
    [ $status = 0 ] || grep -q OutOfMemoryError "$out/$name.log" || tail -n 6 "$out/$name.log" | cut -c 1-300
    return $status
}

ending() { # NAME: the report of a run that ended for want of memory
    "$tree/bin/vramscope" report --all "$out/$1.db" 2>/dev/null | grep -i -A 6 'out of memory' | head -n 12
}

ends() { # GPU
    train "$1" eager 1 --loss eager --offload && echo "the eager loss fits"
    [ -e "$out/eager.db" ] && ending eager
    train "$1" resident 1 --loss fused --checkpointing && echo "it fits with nothing offloaded"
    [ -e "$out/resident.db" ] && ending resident
}

{
    nvidia-smi --query-gpu=name,memory.total --format=csv,noheader | head -n 1
    python3 "$here/llama_long.py" estimate "$tokens" "$layers"
    [ ${#gpus[@]} -lt 2 ] || ends "${gpus[0]}" >"$out/ends.txt" 2>&1 &
    train "${gpus[-1]}" long 2 --loss fused --offload || failed=1
    [ -e "$out/long.db" ] && { python3 "$here/llama_long.py" table "$tokens" "$layers" "$out/long.db" "$out/long.json" || failed=1; }
    wait
    if [ -e "$out/ends.txt" ]; then cat "$out/ends.txt" && rm "$out/ends.txt"; else ends "${gpus[0]}"; fi
    echo "took $SECONDS s: $([ "$failed" = 0 ] && echo passed || echo FAILED)"
} 2>&1 | tee "$out/llama_long.txt"
exit "$(grep -q ': passed$' "$out/llama_long.txt" && echo 0 || echo 1)"
