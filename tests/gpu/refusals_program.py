"""refusals_program.py MODEL [WORD[=VALUE]...] - trains MODEL of predictions_model.py, changed as the words say, under a limit; prints how it ended, as JSON.

A word is an edit of `vramscope whatif`, or one of these:

    limit=MIB            what PyTorch may reserve
    steps=N              4 where it is not given
    base=BATCH:SEQUENCE  factors of the model's shape, before any edit
    device=cpu           instead of a GPU
    update=anew          an Adam in plain operations, whose step replaces the states of one parameter after the other
    update=lists         likewise of all parameters at once, in lists

Of a program that ran out of memory the JSON has the step and the place (model, forward, backward, optimizer) of the request, and how many states of
parameters there were.
"""
import json
import re
import sys
import time

import torch

import predictions_model as M


class Anew(torch.optim.Optimizer):
    """Adam that replaces its states instead of updating them: while a new one is computed, the old one is alive."""

    def __init__(self, params):
        super().__init__(list(params), {})

    @torch.no_grad()
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            if p.grad is None:
                continue
            s, g = self.state[p], p.grad
            s["m"] = 0.9 * s["m"] + 0.1 * g if "m" in s else 0.1 * g
            s["v"] = 0.999 * s["v"] + 0.001 * g * g if "v" in s else 0.001 * g * g
            p.sub_(1e-4 * s["m"] / (s["v"].sqrt() + 1e-8))


class Lists(torch.optim.Optimizer):
    """The same with all parameters' states in lists: the new ones are alive beside all old ones."""

    def __init__(self, params):
        super().__init__(list(params), {})

    @torch.no_grad()
    def step(self, closure=None):
        params = [p for p in self.param_groups[0]["params"] if p.grad is not None]
        m = [0.9 * self.state[p]["m"] + 0.1 * p.grad if "m" in self.state[p] else 0.1 * p.grad for p in params]
        v = [0.999 * self.state[p]["v"] + 0.001 * p.grad**2 if "v" in self.state[p] else 0.001 * p.grad**2 for p in params]
        for p, a, b in zip(params, m, v):
            self.state[p].update(m=a, v=b)
            p.sub_(1e-4 * a / (b.sqrt() + 1e-8))


def optimizer_of(net, edits):
    make = {"anew": Anew, "lists": Lists}.get(edits.get("update"))
    if not make:
        return M.optimizer_of(net, edits)
    return M.InBackward(net.parameters(), make) if "gradients" in edits else make(net.parameters())


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
        M.train(which, edits, int(edits.get("steps", 4)), device, base, optimizer_of, at)
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
