"""A decoder in plain PyTorch (RMSNorm, rotary positions, SwiGLU, attention written out), with an averaged copy of its weights."""
import argparse
import copy
import json
import math

import torch
from torch import nn


class RMS(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.g = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.g * x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype)


def rotate(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class Layer(nn.Module):
    def __init__(self, w, heads, groups):
        super().__init__()
        self.h, self.kv, self.d = heads, groups, w // heads
        self.q, self.k, self.v = nn.Linear(w, w, False), nn.Linear(w, groups * self.d, False), nn.Linear(w, groups * self.d, False)
        self.o, self.n1, self.n2 = nn.Linear(w, w, False), RMS(w), RMS(w)
        self.up, self.gate, self.down = nn.Linear(w, 8 * w // 3, False), nn.Linear(w, 8 * w // 3, False), nn.Linear(8 * w // 3, w, False)

    def forward(self, x, cos, sin, mask):
        b, t, _ = x.shape
        y = self.n1(x)
        q = rotate(self.q(y).view(b, t, self.h, self.d).transpose(1, 2), cos, sin)
        k = rotate(self.k(y).view(b, t, self.kv, self.d).transpose(1, 2), cos, sin).repeat_interleave(self.h // self.kv, 1)
        v = self.v(y).view(b, t, self.kv, self.d).transpose(1, 2).repeat_interleave(self.h // self.kv, 1)
        score = (q @ k.transpose(-2, -1) / math.sqrt(self.d)).masked_fill(mask, float("-inf"))
        x = x + self.o((score.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))
        y = self.n2(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Net(nn.Module):
    def __init__(self, vocab, w, layers, heads, groups):
        super().__init__()
        self.e, self.layers, self.n = nn.Embedding(vocab, w), nn.ModuleList(Layer(w, heads, groups) for _ in range(layers)), RMS(w)
        self.out = nn.Linear(w, vocab, False)
        self.d = w // heads

    def forward(self, ids):
        t = ids.shape[1]
        angle = torch.arange(t, device=ids.device)[:, None] * 10000 ** (-torch.arange(0, self.d, 2, device=ids.device) / self.d)
        mask = torch.ones(t, t, dtype=torch.bool, device=ids.device).triu(1)
        x = self.e(ids)
        for layer in self.layers:
            x = layer(x, angle.cos().to(x.dtype), angle.sin().to(x.dtype), mask)
        return self.out(self.n(x))


p = argparse.ArgumentParser()
for name, value in (("width", 720), ("layers", 7), ("batch", 3), ("seq", 500), ("vocab", 21_001)):
    p.add_argument("--" + name, type=int, default=value)
p.add_argument("--device", default="cuda")
a = p.parse_args()
torch.manual_seed(9)
net = Net(a.vocab, a.width, a.layers, 12, 3).to(a.device)
average = copy.deepcopy(net).requires_grad_(False)
opt = torch.optim.AdamW(net.parameters(), foreach=False)
for step in range(3):
    ids = torch.randint(a.vocab, (a.batch, a.seq + 1)).to(a.device)
    loss = nn.functional.cross_entropy(net(ids[:, :-1]).transpose(1, 2), ids[:, 1:])
    loss.backward()
    opt.step()
    opt.zero_grad()
    with torch.no_grad():
        for slow, fast in zip(average.parameters(), net.parameters()):
            slow.lerp_(fast, 0.01)
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
