#!/bin/bash
# Pages name the blocks of a default recording, whose uses nobody followed, and of a snapshot by their life, and on every page by the same word.
. "$(dirname "$0")/../lib/lib.bash"
find_torch
unset LD_LIBRARY_PATH
cd "$dir" || exit 1
mkdir -p site-packages/nets site-packages/wraps
cat >site-packages/nets/model.py <<'PY'
import torch


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = torch.nn.Linear(width, width)

    def forward(self, x):
        return torch.tanh(self.up(x))
PY
cat >site-packages/wraps/hooks.py <<'PY'
def wrap(module):
    was = module.forward

    def forward(*arguments):
        return was(*arguments)

    module.forward = forward
    return module
PY
cat >train.py <<'PY'
"""train.py HOW - four blocks of a package, each behind another package's wrapper, twelve steps"""
import sys

import torch
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, "site-packages")
from nets.model import Block
from wraps.hooks import wrap

how, kept = sys.argv[1], []
net = torch.nn.Sequential(*(wrap(Block(1024)) for _ in range(4))).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
if how == "reentrant":  # not "again": there PyTorch 2.11 forgets an exception while a history is recorded
    torch.cuda.memory._record_memory_history(stacks="python")
if how in ("died", "ended", "on"):
    torch.cuda.set_per_process_memory_fraction((1 << 30) / torch.cuda.get_device_properties(0).total_memory)
for i in range(12):
    x = torch.randn(4096, 1024, device="cuda", requires_grad=how == "reentrant")
    loss = (checkpoint(net, x, use_reentrant=how == "reentrant") if how in ("again", "reentrant") else net(x)).square().mean()  # its line
    if how == "leak":
        kept.append(net(x).sum())  # the leak's
        kept.append(torch.empty(4096, 1024, device="cuda"))
    if how == "died" and i == 2:
        kept.append(loss)
        try:
            torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            continue
    if how == "ended" and i == 2:
        try:
            torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            del loss, x  # as an exception does that nobody catches
            break
    if how == "on" and i == 0:
        try:
            torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            pass
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    del x, loss
if how == "reentrant":
    torch.cuda.memory._dump_snapshot("reentrant.pickle")
PY
line=$(grep -n '# its line' train.py | cut -d: -f1) leak=$(grep -n "# the leak's" train.py | cut -d: -f1)
run() { # HOW: recorded as HOW.db
    timeout 200 "$V" fit --steps=all --keep-writes=kept.$1 -o "$1.db" -- "$python" -W ignore train.py "$1" >"$1.out" 2>"$1.err" || [[ $1 =~ ^(died|ended|on)$ ]] || fail "$1: $(cat "$1.out" "$1.err")"
    [ -s "$1.db" ] || fail "$1: no recording: $(cat "$1.out" "$1.err")"
}
bytes() { # FILE QUESTION NAME: of the rows of `peak --by QUESTION` whose name is NAME
    "$V" peak --json --by="$2" "$1" | python3 -c 'import json, sys
rows = json.load(sys.stdin)["files"][0]["devices"][0]["by_" + sys.argv[1]]
print(sum(r["size_bytes"] for r in rows if r[sys.argv[1]] == sys.argv[2]))' "$2" "$3"
}
made_again=(reentrant) refused=(ended)
! in_full || made_again+=(again) refused+=(on)
for how in plain leak died "${made_again[@]}" "${refused[@]}"; do run "$how"; done
mib=$((1 << 20))
snapshot=$(find kept.reentrant -name reentrant.pickle)
"$V" import -o imported.db "$snapshot" >/dev/null || fail "the snapshot is not imported"
for how in imported "${made_again[@]}"; do
    [ "$(bytes $how.db role "recomputed activation")" -ge $((3 * 16 * mib)) ] || fail "$how: what backward makes again is no activation: $("$V" peak --by role $how.db)"
done
[ "$(bytes plain.db role workspace)" -gt $((32 * mib)) ] || fail "no workspace: $("$V" peak --by role plain.db)"
COLUMNS=200 "$V" report --all plain.db >page || fail "the report"
grep -q '%  made in forward\|%  made in backward' page && fail "a block of a whole step has no role: $(cat page)"
COLUMNS=200 "$V" peak --by line plain.db >page || fail "the peak by line"
grep -qE "^  train.py:$line > model.py:10 Block.forward  " page || fail "the model's line behind the program's: $(cat page)"
grep -q hooks.py page && fail "a wrapper's line: $(cat page)"
grep -q '^  workspace: ' page || fail "a workspace is its line's: $(cat page)"
COLUMNS=300 "$V" report --all leak.db >page || fail "the report of a leak"
grep -qE "^    leak: \+64.00 MiB a step since step 1, train.py:$leak > model.py:10 Block.forward" page || fail "the leak's line: $(cat page)"
grep -qE "^ +64.00 MiB +4 +16.00 MiB +train.py:$leak > model.py:10 Block.forward$" page || fail "growth by line: $(cat page)"
COLUMNS=300 "$V" report --all died.db >page || fail "the report of a refusal that was survived"
grep -qE "^  [0-9.]+ MiB of what step 3 had made before it still lived when step 11 ended: what came after began with that, [0-9.]+ MiB of it made by train.py:$line > model.py:10 Block.forward$" page ||
    fail "what the refusal's step left: $(cat page)"
for how in "${refused[@]}"; do # the exception ends the run; or, in the first step, nothing
    "$V" peak --at=oom --json $how.db >page || fail "the peak at a refusal: $how"
    python3 -c 'import json
roles = {row["role"]: row["size_bytes"] for row in json.load(open("page"))["files"][0]["devices"][0]["by_role"]}
assert roles["activation"] >= 4 * (16 << 20) and "temporary" not in roles, roles' || fail "what a refused request did not let end: $how"
done
echo "what nobody followed is called by its life, on every page by the same word"
