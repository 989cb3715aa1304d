"""A decoder with latent attention (keys and values from a narrow projection), and a loss that is computed in chunks of tokens and recomputed."""
import argparse
import json
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Latent(nn.Module):
    def __init__(self, width, heads, rank):
        super().__init__()
        self.heads, self.d = heads, width // heads
        self.query, self.down = nn.Linear(width, width, bias=False), nn.Linear(width, rank, bias=False)
        self.norm, self.up = nn.RMSNorm(rank), nn.Linear(rank, 2 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x):
        b, t, w = x.shape
        q = self.query(x).view(b, t, self.heads, self.d).transpose(1, 2)
        k, v = self.up(self.norm(self.down(x))).view(b, t, self.heads, 2 * self.d).transpose(1, 2).chunk(2, -1)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w))


class Block(nn.Module):
    def __init__(self, width, heads, rank):
        super().__init__()
        self.n1, self.n2, self.attention = nn.RMSNorm(width), nn.RMSNorm(width), Latent(width, heads, rank)
        self.gate, self.down = nn.Linear(width, 6 * width, bias=False), nn.Linear(3 * width, width, bias=False)

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        g, u = self.gate(self.n2(x)).chunk(2, -1)
        return x + self.down(F.silu(g) * u)


def chunk_loss(h, y, weight):
    return F.cross_entropy(F.linear(h, weight).float(), y, reduction="sum")


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--width", type=int, default=960)
p.add_argument("--depth", type=int, default=8)
p.add_argument("--vocab", type=int, default=100_352)
p.add_argument("--batch", type=int, default=3)
p.add_argument("--length", type=int, default=1337)
p.add_argument("--chunk", type=int, default=1024)
a = p.parse_args()
torch.manual_seed(23)
with torch.device(a.device):
    embed, norm = nn.Embedding(a.vocab, a.width), nn.RMSNorm(a.width)
    blocks = nn.Sequential(*(Block(a.width, 12, 192) for _ in range(a.depth)))
model = nn.ModuleList([embed, norm, blocks])
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, fused=a.device == "cuda")
for step in range(4):
    tokens = torch.randint(0, a.vocab, (a.batch, a.length + 1)).to(a.device)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        h = norm(blocks(embed(tokens[:, :-1]))).flatten(0, 1)
        y = tokens[:, 1:].flatten()
        parts = [checkpoint(chunk_loss, i, j, embed.weight, use_reentrant=False) for i, j in zip(h.split(a.chunk), y.split(a.chunk))]
        loss = torch.stack(parts).sum() / y.numel()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"{step}: {loss.item():.4f}")
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
