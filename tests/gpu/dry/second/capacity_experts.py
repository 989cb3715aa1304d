"""Experts with a fixed room for tokens: places are found by a cumulative sum, tokens go there by a product with a mask; what does not fit is dropped."""
import argparse
import json
import torch
from torch import nn
from torch.nn import functional as F


class Experts(nn.Module):
    def __init__(self, w, experts, factor):
        super().__init__()
        self.router, self.factor = nn.Linear(w, experts, bias=False), factor
        self.up, self.down = nn.Parameter(torch.randn(experts, w, 4 * w) * 0.02), nn.Parameter(torch.randn(experts, 4 * w, w) * 0.02)

    def forward(self, x):
        b, t, w = x.shape
        room = int(2 * t * self.factor / self.router.out_features) + 1
        shares = self.router(x).float().softmax(-1)
        top, index = shares.topk(2, -1)
        hot = F.one_hot(index, shares.shape[-1]).float()                         # b t 2 e
        place = (hot.flatten(1, 2).cumsum(1) - 1).view_as(hot) * hot
        hot = hot * (place < room)
        send = (hot[..., None] * F.one_hot(place.long().clamp(max=room - 1), room)).to(x.dtype)   # b t 2 e room
        weigh = (send * top[..., None, None].to(x.dtype)).sum(2)
        h = torch.einsum("btec,btw->ebcw", send.sum(2), x)
        h = torch.einsum("ebcf,efw->ebcw", F.gelu(torch.einsum("ebcw,ewf->ebcf", h, self.up)), self.down)
        balance = (hot.sum(2).mean((0, 1)) * shares.mean((0, 1))).sum() * shares.shape[-1]
        return torch.einsum("btec,ebcw->btw", weigh, h), balance


class Block(nn.Module):
    def __init__(self, w, heads, experts):
        super().__init__()
        self.n1, self.n2, self.experts = nn.LayerNorm(w), nn.LayerNorm(w), Experts(w, experts, 1.25)
        self.attention = nn.MultiheadAttention(w, heads, batch_first=True, bias=False)

    def forward(self, x, mask):
        h = self.n1(x)
        x = x + self.attention(h, h, h, attn_mask=mask, is_causal=True, need_weights=False)[0]
        y, balance = self.experts(self.n2(x))
        return x + y, balance


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--w", type=int, default=640)
p.add_argument("--layers", type=int, default=4)
p.add_argument("--experts", type=int, default=8)
p.add_argument("--batch", type=int, default=6)
p.add_argument("--seq", type=int, default=500)
a = p.parse_args()
torch.manual_seed(151)
embed, out = nn.Embedding(16_000, a.w), nn.Linear(a.w, 16_000)
blocks = nn.ModuleList(Block(a.w, 10, a.experts) for _ in range(a.layers))
model = nn.ModuleList([embed, blocks, out]).to(a.device)
mask = nn.Transformer.generate_square_subsequent_mask(a.seq, device=a.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(3):
    ids = torch.randint(0, 16_000, (a.batch, a.seq + 1)).to(a.device)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        x, extra = embed(ids[:, :-1]), 0.0
        for block in blocks:
            x, balance = block(x, mask)
            extra = extra + balance
        loss = F.cross_entropy(out(x).flatten(0, 1), ids[:, 1:].flatten()) + 0.01 * extra
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
