"""A small transformer trained with PyTorch: the program that the GPU tests record.

It knows nothing of any profiler: a plain decoder (bf16, AdamW), random tokens, fixed seeds.  What it knows, it writes down itself, so
that a recording can be checked against it:

  stdout            one line a step with the loss (repr of the float), identical from run to run
  --facts FILE      JSON: PyTorch's own counters (peaks, numbers of allocations and frees) read at the end,
                    and a log of phase boundaries in CLOCK_MONOTONIC nanoseconds: [t, "forward" | "logits" | ... | "none"]

Variants: --compile, --checkpoint, --throw (a block raises inside forward every third step; caught),
--kill STEP (SIGKILL to itself in the middle of that step's backward).
"""
import argparse
import json
import os
import signal
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from counters import counters

BOUNDARIES = []


def boundary(name):
    if not torch.compiler.is_compiling():
        BOUNDARIES.append((time.monotonic_ns(), name))


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.proj = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.fail = False

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, h // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if self.fail:
            raise ArithmeticError("thrown on purpose inside forward")
        x = x + self.proj(a.transpose(1, 2).reshape(b, s, h))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self, layers, hidden, heads, vocab, context, checkpoint):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(context, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        self.lm_head = nn.Linear(hidden, vocab, bias=False)
        self.checkpoint = checkpoint

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            if self.checkpoint:
                x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        x = self.norm(x)
        boundary("logits")
        return self.lm_head(x)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--layers", type=int, default=8)
    p.add_argument("--hidden", type=int, default=1024)
    p.add_argument("--heads", type=int, default=16)
    p.add_argument("--vocab", type=int, default=32000)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--context", type=int, default=1024)
    p.add_argument("--facts")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--checkpoint", action="store_true")
    p.add_argument("--throw", action="store_true")
    p.add_argument("--kill", type=int, default=0)
    p.add_argument("--oom", action="store_true", help="ask for more than the device has at the end, and die of it")
    return p.parse_args()


def save(path):
    if path:
        with open(path, "w") as f:
            json.dump({"counters": counters(), "boundaries": BOUNDARIES, "pid": os.getpid()}, f)
            f.flush()
            os.fsync(f.fileno())


def kill_in_backward(module, facts):
    """Arms a backward hook that notes the counters and kills the process at once: nothing is allocated in between."""

    def hook(grad):
        save(facts)
        os.kill(os.getpid(), signal.SIGKILL)

    return module.register_full_backward_pre_hook(lambda mod, grads: hook(grads))


def train_step(model, optimizer, ids, raw, args, step):
    boundary("none")
    optimizer.zero_grad(set_to_none=True)
    inputs, targets = ids[:, :-1].cuda(non_blocking=True), ids[:, 1:].cuda(non_blocking=True)
    boundary("forward")
    logits = model(inputs)
    loss = F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.reshape(-1))
    if args.kill == step:
        kill_in_backward(raw.blocks[len(raw.blocks) // 2], args.facts)
    boundary("backward")
    loss.backward()
    boundary("none")
    del logits
    boundary("optimizer")
    optimizer.step()
    boundary("none")
    return loss.item()


def main():
    args = parse()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.manual_seed(1)
    raw = Decoder(args.layers, args.hidden, args.heads, args.vocab, args.context, args.checkpoint)
    raw = raw.to("cuda", torch.bfloat16)
    model = torch.compile(raw) if args.compile else raw
    optimizer = torch.optim.AdamW(raw.parameters(), lr=3e-4)
    data = torch.Generator().manual_seed(2)
    for step in range(1, args.steps + 1):
        ids = torch.randint(args.vocab, (args.batch, args.context + 1), generator=data)
        torch.cuda.synchronize()
        if args.throw and step % 3 == 0:
            raw.blocks[len(raw.blocks) // 2].fail = True
            try:
                train_step(model, optimizer, ids, raw, args, step)
            except ArithmeticError as error:
                boundary("none")
                print(f"step {step} caught: {error}")
            raw.blocks[len(raw.blocks) // 2].fail = False
            continue
        loss = train_step(model, optimizer, ids, raw, args, step)
        torch.cuda.synchronize()
        print(f"step {step} loss {loss!r}")
    save(args.facts)
    if args.oom:
        torch.empty(1 << 40, device="cuda")


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    main()
