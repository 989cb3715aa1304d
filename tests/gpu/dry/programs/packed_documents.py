"""Documents packed into one row, kept apart by a block mask; scaled-dot-product attention with that mask, weights in bf16."""
import argparse, json, random
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, w, h):
        super().__init__()
        self.h = h
        self.a, self.b = nn.LayerNorm(w), nn.LayerNorm(w)
        self.qkv, self.out = nn.Linear(w, 3 * w), nn.Linear(w, w)
        self.ff = nn.Sequential(nn.Linear(w, 4 * w), nn.ReLU(), nn.Linear(4 * w, w), nn.Dropout(0.1))

    def forward(self, x, mask):
        t, w = x.shape
        q, k, v = self.qkv(self.a(x)).view(t, 3, self.h, w // self.h).permute(1, 2, 0, 3)
        y = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask)[0]
        x = x + self.out(y.transpose(0, 1).reshape(t, w))
        return x + self.ff(self.b(x))


def pack(rng, room):
    lengths = []
    while sum(lengths) < room:
        lengths.append(min(rng.randint(30, 900), room - sum(lengths)))
    return lengths


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--room", type=int, default=3333)
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--depth", type=int, default=9)
parser.add_argument("--vocab", type=int, default=17_777)
a = parser.parse_args()
torch.manual_seed(1)
rng = random.Random(1)
embed, blocks, head = nn.Embedding(a.vocab, a.width), nn.ModuleList(Block(a.width, 16) for _ in range(a.depth)), nn.Linear(a.width, a.vocab)
model = nn.ModuleDict({"embed": embed, "blocks": blocks, "head": head}).to(a.device, torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(4):
    lengths = pack(rng, a.room - 100 * step)
    ids = torch.randint(a.vocab, (sum(lengths),)).to(a.device)
    document = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)).to(a.device)
    mask = (document[:, None] == document[None]) & torch.ones(len(ids), len(ids), dtype=torch.bool, device=a.device).tril()
    x = embed(ids)
    for block in blocks:
        x = block(x, mask)
    inside = (document[:-1] == document[1:])
    loss = F.cross_entropy(head(x[:-1][inside]).float(), ids[1:][inside])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
