#!/bin/bash
# A program that solves and looks whether it went well runs on under both assumptions about values that only a GPU computes.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/../lib/dry.bash"
find_torch
cat >"$dir/program.py" <<'END'
import torch
for shape in ((16, 16), (3, 16, 16)):
    x, y = torch.randn(shape, device="cuda"), torch.randn(*shape[:-1], 4, device="cuda")
    torch.linalg.solve(x, y), torch.linalg.inv(x), torch.linalg.cholesky(x), torch.linalg.lu_factor(x), torch.linalg.ldl_factor(x)
    torch.linalg.eigh(x), torch.linalg.svd(x), torch.linalg.lstsq(x, y)
END
new_run
timeout --kill-after=1 $limit "$BUILD/bin/vramscope" fit --steps=all -o "$db" -- "$python" "$dir/program.py" >"$run/out" 2>"$run/err" </dev/null
status=$?
[ "$status" = 0 ] || fail "status $status"
grep -q '^fits ' "$run/err" || fail "no answer"
! grep -q 'the value of int32' "$run/out" "$run/err" || fail "how it went was not known"
echo "ok"
