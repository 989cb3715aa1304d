"""arena_torch.py - PyTorch programs for arena_torch.sh: what they are, with any allocator, and what must be the same.

    train FILE [--steps N]     a small decoder trained with sequence lengths that change; losses as hexadecimal floats and
                               torch's own memory figures at each step, into FILE
    features [NAME ...]        one line PASS or FAIL for each thing that a program may do with an allocator
    compare KIND A B [DB]      two files of `train`, and what the recording DB of the second says

A program here knows nothing of vramscope: it runs as it is with PyTorch's own allocator, too.
"""

import argparse
import json
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from arena_torch_features import features  # noqa: E402
from bench_models import Block  # noqa: E402


# ---- training ----


class Decoder(nn.Module):
    def __init__(self, layers=6, width=1024, heads=16, vocabulary=32000, longest=1024):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.norm(x))


def loss_of(model, ids):
    logits = model(ids)
    return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]).float(), ids[:, 1:].reshape(-1))


LENGTHS = (512, 768, 320, 1024, 640, 448)


def requested():
    """What was asked for, which is the same for every allocator: PyTorch's own counts in `allocated` what it did not split off, too"""
    stats = torch.cuda.memory_stats()
    return [stats["requested_bytes.all.current"], stats["requested_bytes.all.peak"]] if stats else []


def figures():
    try:
        return [torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(), torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved()]
    except RuntimeError as error:
        return str(error)


def train(args):
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    model = Decoder().to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    steps = []
    for i in range(args.steps):
        torch.cuda.synchronize()
        t = time.perf_counter()
        ids = torch.randint(0, 32000, (4, LENGTHS[i % len(LENGTHS)]), device="cuda")
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # the others add up in any order
            loss = loss_of(model, ids)
        inside = requested()[0:1]  # before backward, where much is alive
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        steps.append({"loss": value.hex(), "inside": inside, "requested": requested(), "figures": figures(), "seconds": time.perf_counter() - t})
        del loss
    facts = {"steps": steps, "backend": torch.cuda.get_allocator_backend(), "free": torch.cuda.mem_get_info()}
    try:
        facts["stats"] = {k: v for k, v in torch.cuda.memory_stats().items()}
        facts["summary"] = len(torch.cuda.memory_summary())
    except RuntimeError as error:
        facts["stats"] = str(error)
    with open(args.file, "w") as out:
        json.dump(facts, out)
    print(f"{facts['backend']}: {args.steps} steps, last loss {steps[-1]['loss']}, median of the second half "
          f"{sorted(s['seconds'] for s in steps[len(steps) // 2:])[len(steps) // 4] * 1e3:.2f} ms a step, {steps[-1]['figures']}")


# ---- two runs ----


def say(good, text):
    print(("PASS " if good else "FAIL ") + text, flush=True)
    return 0 if good else 1


def compare(args):
    a, b = (json.load(open(f)) for f in (args.a, args.b))
    failed = say([s["loss"] for s in a["steps"]] == [s["loss"] for s in b["steps"]], f"{args.kind}: losses of {len(b['steps'])} steps are equal, bit by bit")
    if args.kind == "arena":
        same = [s["inside"] for s in a["steps"]] == [s["inside"] for s in b["steps"]]
        same = same and [s["requested"] for s in a["steps"]] == [s["requested"] for s in b["steps"]]
        failed += say(same, f"{args.kind}: the requested bytes and their peak are those of torch's own allocator at each step")
        if not same:
            for x, y in list(zip(a["steps"], b["steps"]))[:3]:
                print("     ", x["inside"], x["requested"], "|", y["inside"], y["requested"])
        excess = [x["figures"][0] - y["figures"][0] for x, y in zip(a["steps"], b["steps"])]
        failed += say(min(excess) >= 0, f"{args.kind}: memory_allocated is never above torch's own, which counts rests that it does not split off (by up to {max(excess)} bytes)")
        missing = sorted(set(a["stats"]) - set(b["stats"]))
        failed += say(not missing, f"{args.kind}: memory_stats has every name that torch's has {missing[:8]}")
        peak, reserved = b["steps"][-1]["figures"][1], b["steps"][-1]["figures"][3]
        print(f"     reserved at peak / allocated at peak: torch {a['steps'][-1]['figures'][3] / a['steps'][-1]['figures'][1]:.4f}, arena {reserved / peak:.4f}")
    half = len(b["steps"]) // 2
    ms = [sorted(s["seconds"] for s in f["steps"][half:])[half // 2] * 1e3 for f in (a, b)]
    print(f"     ms a step, median of the second half: {ms[0]:.2f} and {ms[1]:.2f}")
    if args.db:
        import sqlite3

        db = sqlite3.connect(args.db)
        peak, over = db.execute("SELECT max(framework_bytes), sum(allocated_bytes > reserved_bytes) FROM event WHERE device = 0").fetchone()
        if args.kind == "arena":
            failed += say(peak == b["steps"][-1]["figures"][1], f"{args.kind}: the recording's peak {peak} is torch's")
        failed += say(not over, f"{args.kind}: allocated <= reserved at every event ({over} are not)")
        mismatches = db.execute("SELECT count(*) FROM mismatch").fetchone()[0]
        losses = db.execute("SELECT count(*) FROM loss").fetchone()[0]
        failed += say(not mismatches and not losses, f"{args.kind}: no mismatch ({mismatches}) and no loss ({losses}) in the recording")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    sub = parser.add_subparsers(dest="command", required=True)
    one = sub.add_parser("train")
    one.add_argument("file")
    one.add_argument("--steps", type=int, default=36)
    one.set_defaults(run=train)
    one = sub.add_parser("features")
    one.add_argument("names", nargs="*")
    one.set_defaults(run=features)
    one = sub.add_parser("compare")
    one.add_argument("kind")
    one.add_argument("a")
    one.add_argument("b")
    one.add_argument("db", nargs="?")
    one.set_defaults(run=compare)
    args = parser.parse_args()
    sys.exit(1 if args.run(args) else 0)


if __name__ == "__main__":
    main()
