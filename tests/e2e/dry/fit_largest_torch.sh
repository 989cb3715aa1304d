#!/bin/bash
# `fit --max` with a real PyTorch: the batch that it calls the largest fits where it is run alone, and the next one does not; a checkpoint that all of them
# write is as it was.
. "$(dirname "$0")/../lib/lib.bash"
. "$(dirname "$0")/../lib/dry.bash"
find_torch
unset LD_LIBRARY_PATH
cd "$dir" || exit 1
cat >train.py <<'PY'
import sys
import torch

batch = int(sys.argv[1])
model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024)) for _ in range(4))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for i in range(3):
    model(torch.randn(batch * 1024, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.save(model.state_dict(), "checkpoint.pt")
PY
echo "hours of work" >checkpoint.pt
timeout 280 "$V" fit --json --capacity=2GiB -o sizes --max batch=1..16 -- "$python" train.py '{batch}' >out 2>err || fail "fit --max: $? $(tail -n 20 err) $(cat out)"
read -r largest next runs <<<"$(python3 -c 'import json
d = json.load(open("out"))
row, = d["largest"]
print(row["largest"], row["next"], d["points_run"])')"
[ "$next" = $((largest + 1)) ] && [ "$largest" -gt 1 ] || fail "the end: $(cat out)"
[ "$runs" -le 8 ] || fail "$runs runs of 16 sizes"
timeout 300 "$V" fit --json --capacity=2GiB -- "$python" train.py "$largest" >fits 2>err || fail "batch $largest alone: $? $(cat fits)"
timeout 300 "$V" fit --json --capacity=2GiB -- "$python" train.py "$next" >not 2>err
[ $? = 1 ] || fail "batch $next alone fits: $(cat not)"
python3 -c 'import json, sys
point, = (p for p in json.load(open("out"))["points"] if p["point"] == "batch=" + sys.argv[1])
alone = json.load(open("fits"))["answers"][0]
for figure in ("allocated_bytes", "reserved_bytes", "left_bytes"):
    assert point[figure] == alone[figure], (figure, point, alone)' "$largest" || fail "other figures alone"
[ "$(cat checkpoint.pt)" = "hours of work" ] || fail "the checkpoint was written over"
