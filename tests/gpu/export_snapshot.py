"""export_snapshot.py run SNAPSHOT.pickle: a training that ends at once after the snapshot, so that nothing is freed later | compare
SNAPSHOT.pickle EXPORT.pickle: every block in the same order at the same address, larger than the request by no more than the
allocator may waste; the same segments at the end.
"""
import os
import pickle
import sys


def loop(path):
    import torch
    torch.cuda.memory._record_memory_history(max_entries=10_000_000)
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True) for _ in range(4)], torch.nn.Linear(512, 16384)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(6):
        x = torch.randn(4, 64 + 96 * step, 512, device="cuda")  # grows, so that segments are added in the middle
        loss = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), torch.zeros(x.shape[0] * x.shape[1], dtype=torch.long, device="cuda"))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 3:
            del x, loss
            torch.cuda.empty_cache()
    torch.cuda.synchronize()
    with open(path, "wb") as f:
        pickle.dump(torch.cuda.memory._snapshot(), f, protocol=4)
    os._exit(0)


def moves(snapshot):
    return [(e["action"], e["addr"], e["size"]) for e in snapshot["device_traces"][0] if e["action"] in ("alloc", "free_requested")]


def own(segment):
    """Whether vramscope made it of memory that is not PyTorch's."""
    return bool(segment["frames"]) and "outside PyTorch's allocator" in segment["frames"][0]["name"]


def held(snapshot):
    segments, blocks = {}, {}
    for s in snapshot["segments"]:
        if s["device"] or own(s):
            continue
        segments[s["address"]] = s["total_size"]
        at = s["address"]
        for b in s["blocks"]:
            if b["state"] == "active_allocated":
                blocks[at] = b["size"]
            at += b["size"]
    return segments, blocks


def compare(theirs, ours):
    theirs, ours = (pickle.load(open(p, "rb")) for p in (theirs, ours))
    outside = {s["address"] for s in ours["segments"] if own(s)}
    seen = {e["addr"] for e in ours["device_traces"][0] if e["action"] == "alloc" and e["frames"] and "outside PyTorch" in e["frames"][0]["name"]}
    a, b = moves(theirs), [m for m in moves(ours) if m[1] not in seen]
    bad = 0

    def say(good, what):
        nonlocal bad
        bad += not good
        print("ok  " if good else "FAIL", what)

    first = next((i for i, (x, y) in enumerate(zip(a, b)) if x[:2] != y[:2]), None)
    say(first is None and len(a) == len(b), f"{len(a)} allocations and frees by PyTorch's history, {len(b)} exported"
        + ("" if first is None else f"; number {first}: {a[first]} is {b[first]}"))
    larger = [y[2] - x[2] for x, y in zip(a, b) if x[0] == "alloc"]
    say(bool(larger) and min(larger) >= 0 and max(larger) <= 1 << 20, f"blocks are larger than the request by at most {max(larger, default=None)} bytes")
    say(any("train" in f["name"] or "loop" in f["name"] for e in ours["device_traces"][0] for f in e["frames"]), "the program's own frames are there")
    (segments, blocks), (our_segments, our_blocks) = held(theirs), held(ours)
    say(segments == our_segments, f"{len(segments)} segments at the end, {len(our_segments)} exported")
    say(blocks == our_blocks, f"{len(blocks)} blocks at the end, {len(our_blocks)} exported")
    print(f"     outside PyTorch's allocator: {len(outside)} segments at the end")
    return bad != 0


if __name__ == "__main__":
    sys.exit(loop(sys.argv[2]) if sys.argv[1] == "run" else compare(sys.argv[2], sys.argv[3]))
