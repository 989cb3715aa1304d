"""Experts on tokens sorted by expert: counts go to the host, the sorted tokens are split by them, results are scattered back."""
import argparse
import json
import torch
from torch import nn
from torch.nn import functional as F


class Experts(nn.Module):
    def __init__(self, w, experts, top):
        super().__init__()
        self.router, self.top = nn.Linear(w, experts, bias=False), top
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(w, 2 * w), nn.SiLU(), nn.Linear(2 * w, w)) for _ in range(experts))
        self.always = nn.Sequential(nn.Linear(w, 2 * w), nn.SiLU(), nn.Linear(2 * w, w))

    def forward(self, x):
        flat = x.flatten(0, 1)
        share, index = self.router(flat).float().sigmoid().topk(self.top, -1)
        share = share / share.sum(-1, keepdim=True)
        order = index.flatten().argsort()
        counts = torch.bincount(index.flatten(), minlength=len(self.experts)).tolist()
        rows = order // self.top
        parts = [expert(part) for expert, part in zip(self.experts, flat[rows].split(counts)) if len(part)]
        y = torch.cat(parts) * share.flatten()[order, None].to(parts[0].dtype)
        return self.always(flat).index_add(0, rows, y).view_as(x)


class Block(nn.Module):
    def __init__(self, w, heads, experts):
        super().__init__()
        self.heads, self.n1, self.n2 = heads, nn.RMSNorm(w), nn.RMSNorm(w)
        self.qkv, self.o, self.experts = nn.Linear(w, 3 * w), nn.Linear(w, w), Experts(w, experts, 4)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w))
        return x + self.experts(self.n2(x))


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--w", type=int, default=512)
p.add_argument("--layers", type=int, default=6)
p.add_argument("--experts", type=int, default=16)
p.add_argument("--batch", type=int, default=8)
p.add_argument("--seq", type=int, default=512)
a = p.parse_args()
torch.manual_seed(157)
model = nn.Sequential(nn.Embedding(24_000, a.w), *(Block(a.w, 8, a.experts) for _ in range(a.layers)), nn.RMSNorm(a.w), nn.Linear(a.w, 24_000)).to(a.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
for step in range(4):
    ids = torch.randint(0, 24_000, (a.batch, a.seq + 1)).to(a.device)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
