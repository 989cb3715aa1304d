"""A training that is hard on an allocator, told over its standard input when to go on: each line "go" runs a cycle and is answered by
a line of JSON.

    single   one decoder; lengths change, one to four micro-batches, an evaluation after every third step. A cycle of ten steps repeats itself
    varied   the same, but no cycle is like another one
    lengths  two micro-batches a step, each of a length of its own; no evaluation, no cycle is like another
    light    single with a model so small that the host's calls decide how long a step takes
    multi    ten decoders, each on a stream of its own; batches come from an eleventh. A cycle repeats itself

Losses are the same from run to run, whoever allocates.
"""
import argparse
import json
import os
import random
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "oracle/programs"))
from truth import nvml_used  # noqa: E402

STREAMS = 10


class Block(nn.Module):
    def __init__(self, hidden, heads, ffn):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.gate, self.up = nn.Linear(hidden, ffn, bias=False), nn.Linear(hidden, ffn, bias=False)
        self.down = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, h // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, h))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.embed = nn.Embedding(s.vocab, s.hidden)
        self.blocks = nn.ModuleList(Block(s.hidden, s.heads, s.ffn) for _ in range(s.layers))
        self.norm, self.head = nn.RMSNorm(s.hidden), nn.Linear(s.hidden, s.vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids[:, :-1])
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)).float()
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


SIZES = {
    "single": dict(hidden=1536, layers=10, heads=12, ffn=4096, vocab=32000, batch=4, longest=1536, steps=10),
    "light": dict(hidden=512, layers=8, heads=8, ffn=1536, vocab=4096, batch=2, longest=512, steps=10),
    "multi": dict(hidden=768, layers=4, heads=6, ffn=2048, vocab=16000, batch=3, longest=1024, steps=8),
    "small": dict(hidden=32, layers=2, heads=2, ffn=64, vocab=100, batch=2, longest=24, steps=4),
}


ENDLESS = ("varied", "lengths")  # no cycle repeats another one


def sizes(a):
    return argparse.Namespace(**SIZES["small" if a.small else "single" if a.workload in ENDLESS else a.workload])


def counters(a):
    """What PyTorch knows itself; absent where its allocator keeps no figures."""
    found = {}
    if a.device == "cpu":
        return found
    torch.cuda.synchronize()
    for name, ask in (("allocated_peak", torch.cuda.max_memory_allocated), ("reserved_peak", torch.cuda.max_memory_reserved),
                      ("reserved", torch.cuda.memory_reserved)):
        try:
            found[name] = ask()
        except Exception:  # a pluggable allocator has none
            pass
    try:
        stats = torch.cuda.memory_stats()
        found["events"] = stats["allocation.all.allocated"] + stats["allocation.all.freed"]
        found["device_calls"] = stats["num_device_alloc"] + stats["num_device_free"]
    except Exception:
        pass
    free, total = torch.cuda.mem_get_info()
    return dict(found, device_used=total - free, process_used=nvml_used(torch.cuda.current_device())[0])


def tokens(rng, s, length):
    generator = torch.Generator().manual_seed(rng.randrange(1 << 30))
    return torch.randint(s.vocab, (s.batch, length + 1), generator=generator)


def length(rng, s):
    return rng.randint(max(1, s.longest // 16), s.longest)


def new_model(a, s):
    with torch.device(a.device):
        model = Decoder(s).to(torch.float32 if a.device == "cpu" else torch.bfloat16)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=a.device != "cpu")


class Single:
    """One step: micro-batches of changing length, then the optimizer; every third one an evaluation after it."""

    def __init__(self, a, s):
        self.a, self.s = a, s
        self.model, self.optimizer = new_model(a, s)

    def step(self, rng, number):
        losses, batches = [], rng.randint(1, 4)
        for _ in range(batches):
            ids = tokens(rng, self.s, length(rng, self.s)).to(self.a.device)
            loss = self.model(ids)
            (loss / batches).backward()
            losses.append(loss.detach())
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if number % 3 == 2:
            with torch.no_grad():
                losses.append(self.model(tokens(rng, self.s, self.s.longest + length(rng, self.s)).to(self.a.device)))
        return [loss.item() for loss in losses]


class Lengths(Single):
    """One step: two micro-batches of lengths that hardly ever come again, then the optimizer.  Attention is not cuDNN's, which would
    make a plan for each new length, and so hide what the allocator costs."""

    def __init__(self, a, s):
        torch.backends.cuda.enable_cudnn_sdp(False)
        super().__init__(a, s)

    def step(self, rng, number):
        losses, longest = [], min(1500, self.s.longest)
        for _ in range(2):
            loss = self.model(tokens(rng, self.s, rng.randint(longest // 15, longest)).to(self.a.device))
            (loss / 2).backward()
            losses.append(loss.detach())
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return [loss.item() for loss in losses]


class Multi:
    """One step of ten decoders: their forwards one after the other, each on its stream, then their backwards."""

    def __init__(self, a, s):
        self.a, self.s = a, s
        self.streams = [torch.cuda.Stream() for _ in range(STREAMS)]
        self.copies = torch.cuda.Stream()
        self.models = []
        for stream in self.streams:
            with torch.cuda.stream(stream):
                self.models.append(new_model(a, s))
        torch.cuda.synchronize()

    def batch(self, rng, stream):
        with torch.cuda.stream(self.copies):
            ids = tokens(rng, self.s, length(rng, self.s)).pin_memory().to(self.a.device, non_blocking=True)
        stream.wait_stream(self.copies)
        ids.record_stream(stream)
        return ids

    def step(self, rng, number):
        losses = []
        for stream, (model, _) in zip(self.streams, self.models):
            ids = self.batch(rng, stream)
            with torch.cuda.stream(stream):
                losses.append(model(ids))
            del ids
        for n, (stream, (_, optimizer)) in enumerate(zip(self.streams, self.models)):
            with torch.cuda.stream(stream):
                losses[n].backward()
                losses[n] = losses[n].detach()
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        return [loss.item() for loss in losses]


def synchronize(a):
    if a.device != "cpu":
        torch.cuda.synchronize()


def cycle(a, s, work, number):
    rng = random.Random(number if a.workload in ENDLESS else 1)
    step_ms, losses = [], []
    for step in range(s.steps):
        synchronize(a)
        begin = time.perf_counter()
        losses += work.step(rng, step)
        synchronize(a)
        step_ms.append((time.perf_counter() - begin) * 1e3)
    return {"cycle": number, "step_ms": step_ms, "losses": losses, "t_ns": time.monotonic_ns(), "counters": counters(a)}


def say(what):
    print(json.dumps(what), flush=True)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--workload", choices=["single", "varied", "lengths", "light", "multi"], default="single")
    p.add_argument("--device", default="cuda")
    p.add_argument("--small", action="store_true")
    return p.parse_args()


def main():
    a = parse()
    s, work, number = sizes(a), None, 0
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)  # with warn_only fast attention adds up in any order
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.manual_seed(1)
    say({"ready": torch.__version__, "pid": os.getpid()})
    for line in sys.stdin:
        if line.strip() != "go":
            break
        if work is None:
            torch.zeros(1, device=a.device)
            say({"begun": counters(a)})  # the context is there, and hardly more
            kind = {"multi": Multi if a.device != "cpu" else Single, "lengths": Lengths}.get(a.workload, Single)
            work = kind(a, s)
        say(cycle(a, s, work, number))
        number += 1


if __name__ == "__main__":
    main()
