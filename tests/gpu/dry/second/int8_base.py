"""Adapters over weights kept in int8 with a scale for each row: a function of its own unpacks them in both passes."""
import argparse
import json
import math
import torch
from torch import nn
from torch.nn import functional as F


class Unpacked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, packed, scale):
        ctx.save_for_backward(packed, scale)
        return x @ (packed.to(x.dtype) * scale).T

    @staticmethod
    def backward(ctx, g):
        packed, scale = ctx.saved_tensors
        return g @ (packed.to(g.dtype) * scale), None, None


class Adapted(nn.Module):
    def __init__(self, i, o, rank):
        super().__init__()
        self.register_buffer("packed", torch.randint(-127, 128, (o, i), dtype=torch.int8))
        self.register_buffer("scale", torch.full((o, 1), 1 / (127 * math.sqrt(i)), dtype=torch.bfloat16))
        self.a, self.b = nn.Parameter(torch.randn(rank, i) / rank), nn.Parameter(torch.zeros(o, rank))

    def forward(self, x):
        return Unpacked.apply(x, self.packed, self.scale) + F.linear(F.linear(F.dropout(x, 0.05), self.a.to(x.dtype)), self.b.to(x.dtype))


class Block(nn.Module):
    def __init__(self, w, heads, rank):
        super().__init__()
        self.heads, self.n1, self.n2 = heads, nn.RMSNorm(w), nn.RMSNorm(w)
        self.qkv, self.o, self.up, self.down = Adapted(w, 3 * w, rank), Adapted(w, w, rank), Adapted(w, 4 * w, rank), Adapted(4 * w, w, rank)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w))
        return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--w", type=int, default=2048)
p.add_argument("--depth", type=int, default=12)
p.add_argument("--vocab", type=int, default=32_000)
p.add_argument("--batch", type=int, default=2)
p.add_argument("--length", type=int, default=800)
a = p.parse_args()
torch.manual_seed(149)
with torch.device(a.device):
    embed = nn.Embedding(a.vocab, a.w, dtype=torch.bfloat16).requires_grad_(False)
    blocks, norm = nn.Sequential(*(Block(a.w, 16, 8) for _ in range(a.depth))), nn.RMSNorm(a.w)
optimizer = torch.optim.AdamW([*blocks.parameters(), *norm.parameters()], lr=2e-4)
for step in range(3):
    ids = torch.randint(0, a.vocab, (a.batch, a.length + 1)).to(a.device)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        logits = F.linear(norm(blocks(embed(ids[:, :-1]))), embed.weight)
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
