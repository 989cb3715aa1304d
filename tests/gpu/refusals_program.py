"""refusals_program.py MODEL [WORD[=VALUE]...] - trains MODEL of predictions_model.py under a limit, changed as the words say; prints
how it ended, as JSON.

A word is an edit of `vramscope whatif`, or limit=MIB of what PyTorch may reserve, steps=N, base=BATCH:SEQUENCE (factors of the
model's shape), device=cpu.
"""
import json
import re
import sys
import time

import torch

import predictions_model as M


def states_of(net, optimizer):
    """How many states of parameters there are."""
    found = 0
    for p in net.parameters():
        own = optimizer.optimizers[p] if hasattr(optimizer, "optimizers") else optimizer
        found += sum(torch.is_tensor(x) and x.shape == p.shape for x in own.state.get(p, {}).values())
    return found


def main(which, *changes):
    begun = time.time()
    edits = {c.partition("=")[0]: c.partition("=")[2] for c in changes}
    device = edits.get("device", "cuda")
    at, row = {}, {"model": which, "edits": edits, "refused": None}
    if "limit" in edits and device == "cuda":
        torch.cuda.set_per_process_memory_fraction(float(edits["limit"]) * 2**20 / torch.cuda.get_device_properties(0).total_memory)
    try:
        base = [float(x) * (0.5 if device == "cpu" else 1) for x in edits.get("base", "1:1").split(":")]
        M.train(which, edits, int(edits.get("steps", 4)), device, base, at)
        if device == "cuda":
            torch.cuda.synchronize()
    except RuntimeError as error:
        if not re.search("out of memory", str(error)):
            raise
        row.update(refused=str(error)[:300], step=at.get("step", 0), place=at.get("place", "model"), states=states_of(*at["trained"]) if "trained" in at else 0)
    if device == "cuda":
        row.update(allocated=torch.cuda.max_memory_allocated(), reserved=torch.cuda.max_memory_reserved())
    print(json.dumps({**row, "seconds": round(time.time() - begun, 1)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
