#!/bin/bash
# What tests/gpu measures of the arena with PyTorch, as far as it goes without a GPU.
. "$(dirname "$0")/../lib/lib.bash"
gpu=$(cd "$(dirname "$0")/../../gpu" && pwd)
export PYTHONDONTWRITEBYTECODE=1
torch=${TEST_PYTHON:-}
[ -n "$torch" ] && "$torch" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' 2>/dev/null || skip "TEST_PYTHON names no Python with PyTorch"
new_run
cmake --install "$BUILD" --prefix "$dir/tree" >/dev/null || fail "cmake --install"
on_cpu() { timeout 300 "$torch" "$(dirname "$0")/cuda_on_cpu.py" "$@"; }
timeout 300 "$torch" "$gpu/arena_table.py" "$dir/tree" "$run" --cpu --cycles 2 --workloads single --only native,nocache-arena+quiet >"$run/out" 2>"$run/err" || fail "arena_table.py"
grep -q 'no caching, arena, not recording .* equal' "$run/out" || fail "losses differ, or a worker failed"
echo go | timeout 300 "$torch" -c 'import sys
sys.path.append(sys.argv.pop(1))
import arena_train, torch
arena_train.main()
assert torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled()
' "$gpu" --device cpu --small >"$run/out" 2>"$run/err" || fail "arena_train.py leaves operators their own order"
on_cpu "$gpu/arena_stress.py" --seconds 1 --largest 1 --live 16 >"$run/out" 2>"$run/err" || fail "arena_stress.py"
grep -q 'tensors [1-9].*wrong words 0$' "$run/out" || fail "arena_stress.py says nothing"
timeout 300 "$torch" "$gpu/arena_sweep.py" "$dir/tree" "$run" --device cpu --only native --values 1,101 >"$run/out" 2>"$run/err" || fail "arena_sweep.py"
[ "$(wc -l <"$run/sweep.tsv")" = 4 ] || fail "not all points were measured"
timeout 300 "$torch" "$gpu/arena_fsdp.py" "$dir/tree" "$run" --cpu --rounds 1 --only native >"$run/out" 2>"$run/err" || fail "arena_fsdp.py"
grep -q '^native  *1 .*last loss [1-9]' "$run/out" || fail "arena_fsdp.py: the ranks did not train"
echo "the arena's measurements, without a GPU"
