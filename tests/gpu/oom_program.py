"""oom_program.py FACTS.json caught|uncaught|limit|loop|absorbed|cached - runs out of GPU memory; FACTS gets
torch.cuda.memory_snapshot()'s active blocks and torch's counters, as the exception's handler sees them. absorbed: what is cached
belongs to another stream, so every allocator must give it back first. cached: to the same stream, in pieces, which expandable
segments join and others give back.
"""
import json
import random
import sys

import torch

GiB = 1 << 30


def state():
    facts = {"allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved(), "blocks": [], "inactive": []}
    try:
        segments = torch.cuda.memory_snapshot()
    except RuntimeError:  # cudaMallocAsync has none
        return facts
    for segment in segments:
        for block in segment["blocks"]:
            kind = "blocks" if block["state"] == "active_allocated" else "inactive"
            facts[kind].append([block["address"], block["size"]])
    return facts


def fill(rng):
    kept = []
    for _ in range(400):
        kept.append(torch.empty(rng.randrange(1, 64 << 20), dtype=torch.uint8, device="cuda"))
        if rng.random() < 0.4:
            kept.pop(rng.randrange(len(kept)))
    return kept


def exhaust(kept, size):
    while True:
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))


def refill(stream):
    """Frees 60 % of the device, of STREAM's, and asks for 70 % on the current one."""
    total = torch.cuda.get_device_properties(0).total_memory
    with torch.cuda.stream(stream):
        tensors = [torch.empty(GiB, dtype=torch.uint8, device="cuda") for _ in range(int(total * 0.6) // GiB)]
        del tensors
    big = torch.empty(int(total * 0.7), dtype=torch.uint8, device="cuda")
    return {"bytes": big.numel()}


def main():
    path, how = sys.argv[1:]
    rng = random.Random(7)
    facts = {"how": how, "ooms": 0, "device": torch.cuda.get_device_properties(0).total_memory}
    kept = []
    refills = {"absorbed": torch.cuda.Stream, "cached": torch.cuda.current_stream}
    if how in refills:
        facts.update(refill(refills[how]()))
    elif how == "limit":
        torch.cuda.set_per_process_memory_fraction(0.1)
    try:
        if how not in refills:
            kept = fill(rng)
            exhaust(kept, 3 * GiB + 12345)
    except torch.cuda.OutOfMemoryError:
        facts.update(state(), requested=3 * GiB + 12345)
        facts["ooms"] = 1
        if how == "uncaught":
            json.dump(facts, open(path, "w"))
            raise
    for n in range(200 if how == "loop" else 0):
        try:
            torch.empty((8 + n) * GiB, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError:
            facts["ooms"] += 1
            facts.update(state(), requested=(8 + n) * GiB)
    json.dump(facts, open(path, "w"))
    print(how, facts["ooms"], len(kept))
    kept.clear()
    again = torch.empty(GiB, dtype=torch.uint8, device="cuda")  # it goes on
    print("went on", again.numel())


main()
