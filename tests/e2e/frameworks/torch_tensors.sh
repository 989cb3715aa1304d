#!/bin/bash
# What tensor a block is made for: each element type by PyTorch's name, every shape, request and stride, exceptions and all.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
find_torch

recorded "$python" "$here/torch_tensors.py"
[ "$status" = 0 ] || fail "exit status $status"
[ "$(wc -l <"$run/out")" -ge 20 ] || fail "PyTorch has few element types"
ask "SELECT size_bytes, request_bytes, element_type, shape FROM allocation WHERE made_for = 'tensor' ORDER BY alloc_seq" | diff - "$run/out" >"$dir/difference" ||
    fail "what PyTorch says of its tensors (>) is recorded otherwise (<): $(cat "$dir/difference")"
expect_sql "SELECT size_bytes, made_for FROM allocation WHERE op = 'block_alloc' ORDER BY alloc_seq DESC LIMIT 1" "4194304|raw"
expect_sql "SELECT request_bytes, element_type, shape FROM oom JOIN tensor_text t ON t.id = tensor" "4398046511104|float32|[1099511627776]"
echo "$(wc -l <"$run/out") tensors of PyTorch's are what it says"
