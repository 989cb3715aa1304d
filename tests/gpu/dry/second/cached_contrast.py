"""Sentence pairs with a large batch: embeddings without gradients first, then the loss's gradients by embedding, then each chunk again."""
import argparse
import json

import torch
from torch import nn
from torch.nn import functional as F

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--width", type=int, default=512)
p.add_argument("--layers", type=int, default=6)
p.add_argument("--pairs", type=int, default=700)
p.add_argument("--chunk", type=int, default=96)
p.add_argument("--length", type=int, default=65)
a = p.parse_args()
torch.manual_seed(59)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(30_522, a.width), nn.Parameter(torch.randn(a.length, a.width) * 0.02)
        layer = nn.TransformerEncoderLayer(a.width, 8, 4 * a.width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, a.layers, nn.LayerNorm(a.width), enable_nested_tensor=False)

    def forward(self, ids):
        empty = ids == 0
        h = self.body(self.words(ids) + self.places[:ids.shape[1]], src_key_padding_mask=empty)
        keep = (~empty).unsqueeze(-1)
        return F.normalize((h * keep).sum(1) / keep.sum(1), dim=-1)


model = Encoder().to(a.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(3):
    lengths = torch.randint(5, a.length + 1, (2 * a.pairs, 1))
    ids = (torch.randint(1, 30_522, (2 * a.pairs, a.length)) * (torch.arange(a.length)[None] < lengths)).to(a.device)
    chunks = ids.split(a.chunk)
    with torch.no_grad(), torch.autocast(a.device, dtype=torch.bfloat16):
        vectors = torch.cat([model(c).float() for c in chunks])
    vectors.requires_grad_()
    left, right = vectors.split(a.pairs)
    loss = F.cross_entropy(left @ right.T * 20, torch.arange(a.pairs, device=a.device))
    loss.backward()
    for c, g in zip(chunks, vectors.grad.split(a.chunk)):
        with torch.autocast(a.device, dtype=torch.bfloat16):
            again = model(c)
        (again.float() * g).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
