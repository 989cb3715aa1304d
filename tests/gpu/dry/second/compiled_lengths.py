"""A compiled decoder with rotary positions whose batches differ in length (dynamic shapes), bf16 autocast, a clipped gradient."""
import argparse
import json
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, w, heads, groups):
        super().__init__()
        self.d, self.heads, self.groups = w // heads, heads, groups
        self.q, self.kv, self.o = nn.Linear(w, w, bias=False), nn.Linear(w, 2 * groups * self.d, bias=False), nn.Linear(w, w, bias=False)
        self.n1, self.n2 = nn.RMSNorm(w), nn.RMSNorm(w)
        self.gate, self.up, self.down = nn.Linear(w, 3 * w, bias=False), nn.Linear(w, 3 * w, bias=False), nn.Linear(3 * w, w, bias=False)

    def turn(self, x, cos, sin):
        left, right = x.chunk(2, -1)
        return x * cos + torch.cat([-right, left], -1) * sin

    def forward(self, x, cos, sin):
        b, t, w = x.shape
        h = self.n1(x)
        q = self.q(h).view(b, t, self.heads, self.d).transpose(1, 2)
        k, v = self.kv(h).view(b, t, 2, self.groups, self.d).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.turn(q, cos, sin), self.turn(k, cos, sin), v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, w))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self, vocab, w, depth):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(vocab, w), nn.ModuleList(Block(w, 12, 4) for _ in range(depth))
        self.norm, self.head, self.d = nn.RMSNorm(w), nn.Linear(w, vocab, bias=False), w // 12

    def forward(self, ids):
        x = self.embed(ids)
        angle = torch.outer(torch.arange(ids.shape[1], device=ids.device), 1e4 ** (-torch.arange(0, self.d, 2, device=ids.device) / self.d))
        cos, sin = torch.cat([angle, angle], -1).cos().to(x.dtype), torch.cat([angle, angle], -1).sin().to(x.dtype)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--w", type=int, default=768)
p.add_argument("--depth", type=int, default=5)
p.add_argument("--vocab", type=int, default=32_003)
p.add_argument("--batch", type=int, default=6)
p.add_argument("--lengths", type=int, nargs="*", default=[300, 611, 450, 702])
a = p.parse_args()
torch.manual_seed(3)
model = Decoder(a.vocab, a.w, a.depth).to(a.device)
run = torch.compile(model, dynamic=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=a.device == "cuda")
for step, length in enumerate(a.lengths):
    ids = torch.randint(0, a.vocab, (a.batch, length + 1)).to(a.device)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        logits = run(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(step, length, loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
