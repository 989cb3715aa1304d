"""A mixture of experts routed by hand with torch.where over the router's choice; a capacity-free loop over experts, a balancing loss."""
import argparse
import json

import torch
import torch.nn as nn
import torch.nn.functional as F


class Experts(nn.Module):
    def __init__(self, w, n, k):
        super().__init__()
        self.k, self.n = k, n
        self.router = nn.Linear(w, n, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(w, 3 * w), nn.SiLU(), nn.Linear(3 * w, w)) for _ in range(n))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        probability = self.router(flat).softmax(-1)
        weight, chosen = probability.topk(self.k, -1)
        weight = (weight / weight.sum(-1, keepdim=True)).to(x.dtype)
        y = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == i)
            if token.numel():
                y = y.index_add(0, token, expert(flat[token]) * weight[token, slot, None])
        load = F.one_hot(chosen, self.n).float().mean((0, 1))
        return y.view_as(x), self.n * (load * probability.float().mean(0)).sum()


class Layer(nn.Module):
    def __init__(self, w, n, k):
        super().__init__()
        self.n1, self.n2, self.attention, self.moe = nn.LayerNorm(w), nn.LayerNorm(w), nn.MultiheadAttention(w, 8, batch_first=True), Experts(w, n, k)

    def forward(self, x, mask):
        y = self.n1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, is_causal=True, need_weights=False)[0]
        y, balance = self.moe(self.n2(x))
        return x + y, balance


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--w", type=int, default=640)
p.add_argument("--layers", type=int, default=5)
p.add_argument("--experts", type=int, default=8)
p.add_argument("--batch", type=int, default=6)
p.add_argument("--seq", type=int, default=420)
a = p.parse_args()
torch.manual_seed(13)
embed, layers, head = nn.Embedding(20_000, a.w), nn.ModuleList(Layer(a.w, a.experts, 2) for _ in range(a.layers)), nn.Linear(a.w, 20_000)
model = nn.ModuleList([embed, layers, head]).to(a.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
mask = nn.Transformer.generate_square_subsequent_mask(a.seq, device=a.device)
for step in range(4):
    ids = torch.randint(0, 20_000, (a.batch, a.seq + 1)).to(a.device)
    x, extra = embed(ids[:, :-1]), 0.0
    for layer in layers:
        x, balance = layer(x, mask)
        extra = extra + balance
    loss = F.cross_entropy(head(x).flatten(0, 1), ids[:, 1:].flatten()) + 0.01 * extra
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", loss.item(), "balance", float(extra) / a.layers)
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
