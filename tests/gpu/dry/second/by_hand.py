"""A small GPT whose attention is written out (scores, mask, softmax, dropout), post-norm, in fp16 with a GradScaler that grows early."""
import argparse, json, math
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, n, heads, longest):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(n, n) for _ in range(4))
        self.heads, self.drop = heads, nn.Dropout(0.1)
        self.register_buffer("mask", torch.tril(torch.ones(longest, longest)).bool())

    def forward(self, x):
        b, t, n = x.shape
        q, k, v = (f(x).view(b, t, self.heads, -1).permute(0, 2, 1, 3) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(~self.mask[:t, :t], float("-inf"))
        return self.o((self.drop(torch.softmax(scores, -1)) @ v).permute(0, 2, 1, 3).contiguous().view(b, t, n))


class Layer(nn.Module):
    def __init__(self, n, heads, longest):
        super().__init__()
        self.attention, self.norms = Attention(n, heads, longest), nn.ModuleList([nn.LayerNorm(n), nn.LayerNorm(n)])
        self.mlp = nn.Sequential(nn.Linear(n, 4 * n), nn.ReLU(), nn.Linear(4 * n, n), nn.Dropout(0.1))

    def forward(self, x):
        x = self.norms[0](x + self.attention(x))
        return self.norms[1](x + self.mlp(x))


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--n", type=int, default=512)
p.add_argument("--layers", type=int, default=6)
p.add_argument("--batch", type=int, default=24)
p.add_argument("--length", type=int, default=256)
p.add_argument("--vocab", type=int, default=8192)
a = p.parse_args()
torch.manual_seed(2)
model = nn.Sequential(nn.Embedding(a.vocab, a.n), *(Layer(a.n, 8, a.length) for _ in range(a.layers)), nn.Linear(a.n, a.vocab)).to(a.device)
optimizer = torch.optim.NAdam(model.parameters(), lr=3e-4)
scaler = torch.amp.GradScaler(a.device, init_scale=256.0, growth_interval=2)
text = torch.randint(0, a.vocab, (200_000,))
for step in range(5):
    at = torch.randint(0, len(text) - a.length - 1, (a.batch,))
    x = torch.stack([text[i:i + a.length] for i in at]).to(a.device)
    y = torch.stack([text[i + 1:i + 1 + a.length] for i in at]).to(a.device)
    with torch.autocast(a.device, dtype=torch.float16):
        logits = model(x)
        loss = nn.functional.cross_entropy(logits.view(-1, a.vocab), y.view(-1))
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(f"iter {step}: loss {loss.item():.4f}, scale {scaler.get_scale()}")
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
