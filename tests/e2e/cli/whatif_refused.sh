#!/bin/bash
# What `whatif` says would have let a refused request pass does, or does not, when the changed PyTorch program runs under the same limit.
. "$(dirname "$0")/../lib/lib.bash"
python=${TEST_PYTHON:-python3}
has_modules "$python" torch || skip "$python has no torch (TEST_PYTHON names one that has)"
"${CC:-cc}" -O1 -shared -fPIC -o "$dir/cpu_blocks.so" "$here/../frameworks/cpu_blocks.c" || fail "cpu_blocks.c"
cat >"$dir/program.py" <<'PY'
"""program.py HOW - one step of AdamW; in-backward: each parameter is updated as soon as its gradient is there; alone: what has no states passes;
workspace: backward makes 32 MiB that stay, as cuBLAS's workspace for its thread.  Prints where it ended."""
import sys

import torch

how = sys.argv[1]
net = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(6)))
at = "backward"


def now(p):
    own[p].step()
    p.grad = None


if how == "in-backward":
    own = {p: torch.optim.AdamW([p]) for p in net.parameters()}
    for p in own:
        p.register_post_accumulate_grad_hook(now)
if how == "workspace":
    kept = []
    net[0].bias.register_hook(lambda gradient: kept.append(torch.empty(8 << 20)))
optimizer = torch.optim.AdamW(net.parameters())
try:
    net(torch.randn(64, 1024)).square().mean().backward()
    at = "optimizer"
    if how != "alone":
        optimizer.step()
    at = "end"
except RuntimeError as error:
    assert "out of memory" in str(error), error
print(at)
PY
mib=$((1 << 20))
limit=$((60 * mib)) # 24 MiB of parameters, as much of gradients, and of their states
run() { # NAME HOW: where it ended
    LD_PRELOAD=$dir/cpu_blocks.so CPU_BLOCKS_LIMIT=$limit timeout 120 "$V" run --simulated -q -o "$dir/$1.db" -- "$python" -W ignore "$dir/program.py" "$2" >"$dir/$1.out" 2>"$dir/err" ||
        fail "$1: exit status $?: $(cat "$dir/err")"
    cat "$dir/$1.out"
}
says() { # NAME EDIT TEXT
    COLUMNS=300 "$V" whatif --why --policy=live --capacity="$limit" -e "$2" "$dir/$1.db" >"$dir/said" 2>&1
    grep -qF -- "$3" "$dir/said" || fail "$2: not '$3': $(cat "$dir/said")"
}
[ "$(run died as-it-is)" = optimizer ] || fail "it did not die at its states: $(cat "$dir/died.out")"
says died states=bf16 "this request would have passed"
says died states=host "states=host frees 8.0"
says died states=host "this request would not be made"
# 24 MiB of parameters, 48 of states, and a gradient
[ "$(run changed in-backward)" = backward ] || fail "with gradients=in-backward it did not die in backward"
says died gradients=in-backward "not enough alone"
says died gradients=in-backward "two states of each parameter, as Adam's"
[ "$(run alone alone)" = end ] || fail "without states it does not pass"
# what backward left is none of its temporaries, which half a batch would have less of
limit=$((92 * mib))
[ "$(run workspace workspace)" = optimizer ] || fail "beside a workspace it did not die at its states: $(cat "$dir/workspace.out")"
says workspace batch=0.5 "batch=0.5 frees 0 B: not enough alone"
# before any step of an optimizer nobody knows its states
limit=$((42 * mib))
[ "$(run early as-it-is)" = backward ] || fail "it did not die in backward: $(cat "$dir/early.out")"
says early gradients=in-backward "this request may have passed"
says early gradients=in-backward "at most two states of each parameter"
echo "a program that died at its first states passes and dies as was said"
