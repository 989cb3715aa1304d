"""Texts that grow from step to step while the batch shrinks; the cache is emptied at each change, weights tied, Adamax."""
import argparse
import json
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--w", type=int, default=704)
p.add_argument("--depth", type=int, default=7)
p.add_argument("--stages", nargs="*", default=["16x128", "9x256", "5x640", "2x1530"])
a = p.parse_args()
torch.manual_seed(179)


class Block(nn.Module):
    def __init__(self, w, heads):
        super().__init__()
        self.heads, self.norm, self.out = heads, nn.LayerNorm(w, bias=False), nn.Linear(5 * w, w, bias=False)
        self.all = nn.Linear(w, 7 * w, bias=False)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v, wide = self.all(self.norm(x)).split([w, w, w, 4 * w], -1)
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in (q, k, v))
        y = F.scaled_dot_product_attention(F.normalize(q, dim=-1), F.normalize(k, dim=-1), v, is_causal=True, scale=8.0)
        return x + self.out(torch.cat([y.transpose(1, 2).reshape(b, t, w), F.gelu(wide)], -1))


embed, blocks = nn.Embedding(40_000, a.w), nn.Sequential(*(Block(a.w, 11) for _ in range(a.depth)))
model = nn.ModuleList([embed, blocks, nn.LayerNorm(a.w)]).to(a.device)
optimizer = torch.optim.Adamax(model.parameters(), lr=1e-3)
for step, stage in enumerate(a.stages):
    batch, length = (int(n) for n in stage.split("x"))
    if a.device == "cuda":
        torch.cuda.empty_cache()
    for part in range(2):
        ids = torch.randint(0, 40_000, (batch, length + 1)).to(a.device)
        with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
            logits = F.linear(model[2](blocks(embed(ids[:, :-1]))), embed.weight)
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(stage, loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
