#!/bin/bash
# `vramscope fit` of a real PyTorch's program: the figures are PyTorch's own counters, out of memory is "does not fit", and checkpoints can be
# written and read while those that were there stay.
. "$(dirname "$0")/../lib/lib.bash"
find_torch
unset LD_LIBRARY_PATH
cd "$dir" || exit 1
cat >train.py <<'PY'
import os, sys
import torch

width, caught = int(sys.argv[1]), len(sys.argv) > 2
def step():
    optimizer.zero_grad()
    model(torch.randn(64, width, device="cuda")).square().mean().backward()
    optimizer.step()

model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(4))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for i in range(2):
    try:
        step()
    except torch.OutOfMemoryError:
        if not caught:
            raise
        width = 0
        break
if width:
    torch.save({"model": model.state_dict(), "rng": torch.get_rng_state()}, "checkpoint.pt")
    assert os.path.getsize("checkpoint.pt") > sum(p.numel() * 4 for p in model.parameters())
    torch.set_rng_state(torch.load("checkpoint.pt", weights_only=True)["rng"])
    import torch.distributed.checkpoint as dcp

    dcp.save(model.state_dict(), checkpoint_id="parts")
    dcp.load(model.state_dict(), checkpoint_id="parts")
    print("held", torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), flush=True)
PY
echo mine >checkpoint.pt
fit() { # STATUS ARGUMENT...
    local wanted=$1 got
    shift
    timeout 280 "$V" fit "$@" >out 2>err </dev/null
    got=$?
    [ $got = "$wanted" ] || fail "fit $*: status $got, not $wanted: $(tail -n 30 out err)"
    [ "$(cat checkpoint.pt)" = mine ] || fail "fit $*: the checkpoint that was there"
}
allocators=(--allocator=native --expandable)
! in_full || allocators+=(--allocator=arena)
for allocator in "${allocators[@]}"; do
    fit 0 "$allocator" --json -- "$python" train.py 2048
    mv out "out$allocator" && mv err "err$allocator"
done
python3 - "${allocators[@]}" <<'PY' || fail "not what PyTorch counts: $(grep -h held err--*; cat out--*)"
import json, sys
asked = sys.argv[1:]
held = [tuple(map(int, line.split()[1:])) for a in asked for line in open("err" + a) if line.startswith("held")]
answers = [json.load(open("out" + a))["answers"][0] for a in asked]
assert [a["allocator"] for a in answers] == ["native", "expandable", "arena"][:len(asked)] and len(held) == len(asked), held
for answer, (allocated, reserved) in zip(answers[:2], held):
    assert (answer["allocated_bytes"], answer["reserved_bytes"], answer["steps"]) == (allocated, reserved, 2), (answer, allocated, reserved)
    assert answer["exact"] and answer["framework"] and answer["left_bytes"] > 0
    size = [w["bytes"] for w in answer["written"] if w["path"].endswith("checkpoint.pt")]
    assert size and size[0] > 4 * 4 * 2048 * 2048, answer["written"]
PY

# which of two equal free blocks is the lower one decides, up to PyTorch 2.11, whether the last request finds a whole segment
cat >addresses.py <<'PY'
import torch
MiB = 1 << 20
take = lambda mib: torch.empty(mib * MiB, dtype=torch.int8, device="cuda")
low, high = take(9), take(20)
del low, high
torch.cuda.empty_cache()
a, b, c, d = take(8), take(8), take(8), take(8)
small = take(2)
del a, b
last = take(20)
PY
fit 0 --steps=all -- "$python" addresses.py
if "$python" -c 'from importlib.metadata import version; raise SystemExit(tuple(map(int, version("torch").split(".")[:2])) > (2, 11))'; then
    tr -s ' \n' ' ' <err | grep -q 'reserved within 40.00 MiB to 60.00 MiB addresses decide' || fail "other addresses: $(cat err)"
else
    grep -q '^    exact$' err || fail "the older one is taken, wherever it lies: $(cat err)"
fi
if in_full; then
    fit 0 --steps=all --expandable -- "$python" addresses.py
    grep -q '^    exact$' err || fail "addresses, expandable: $(cat err)"
fi

# what torch.compile keeps is empty in the first run, and what that left in the second
cat >compiled.py <<'PY'
import os, torch
kept = os.environ["TORCHINDUCTOR_CACHE_DIR"]
full = len(os.listdir(kept))
open(kept + "/kernel", "w").close()
tensor = torch.empty((4 + full) << 20, dtype=torch.int8, device="cuda")
PY
fit 0 --steps=all -- "$python" compiled.py
tr -s ' \n' ' ' <err | grep -q "allocated within 4.00 MiB to 5.00 MiB, reserved exact torch.compile's caches were empty; a second run with full ones gave other sizes" || fail "caches: $(cat err)"

fit 1 --capacity=1500MiB -o refused.db -- "$python" train.py 4096
grep -q '^does not fit a device of 1.46 GiB' out && grep -q 'torch.OutOfMemoryError' err || fail "refused: $(cat out err)"
grep -q 'with the program changed' out || fail "nothing that would let it: $(cat out)"
fit 3 -- "$python" -c 'import torch; torch.ones(9).sum()'
grep -q 'imported PyTorch and never used a GPU' out || fail "on the CPU: $(cat out)"
in_full || exit 0
fit 1 --capacity=1500MiB -- "$python" train.py 4096 caught
grep -q 'the program caught that and went on' out || fail "caught: $(cat out)"
# a limit that the program set itself is not the device's: where it ends the program nobody can tell, and one that goes on fits
sed 's/^model = /torch.cuda.set_per_process_memory_fraction(0.008)\n&/' train.py >limited.py
fit 3 -- "$python" limited.py 4096
tr -s ' \n' ' ' <out >words
grep -q "^can't tell: out of memory .*; short by .* under PyTorch's limit of 1.12 GiB (set_per_process_memory_fraction); the driver was not asked have the program set no limit" words || fail "a limit of its own: $(cat out)"
fit 0 -- "$python" limited.py 4096 caught
grep -q '^  under its own limit, and went on after that refused it memory' out || fail "a limit of its own, caught: $(cat out)"

# blocks that another stream used are free once a GPU is done with them: at once, or when somebody has waited for it
cat >streams.py <<'PY'
import torch
side = torch.cuda.Stream()
for i in range(6):
    block = torch.empty(20 << 20, dtype=torch.int8, device="cuda")
    with torch.cuda.stream(side):
        block.add_(1)
    block.record_stream(side)
    del block
    done = side.record_event()
    if i % 2:
        while not done.query():
            pass
PY
fit 0 --steps=all --expandable -- "$python" streams.py
tr -s ' \n' ' ' <err | grep -q 'reserved within 20.00 MiB to 45.00 MiB .* when a GPU is done with blocks of several streams' || fail "blocks of two streams: $(cat err)"
