"""A masked autoencoder: patches are shuffled by noise, a quarter is encoded, all are decoded, the loss is that of the hidden ones."""
import argparse
import json
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, w, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(w), nn.LayerNorm(w)
        self.attention = nn.MultiheadAttention(w, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(w, 4 * w), nn.GELU(), nn.Linear(4 * w, w))

    def forward(self, x):
        h = self.n1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.n2(x))


class MAE(nn.Module):
    def __init__(self, image, patch, w, depth, v, shallow):
        super().__init__()
        self.count, self.patch = (image // patch) ** 2, patch
        self.embed = nn.Conv2d(3, w, patch, patch)
        self.places, self.places2 = (nn.Parameter(torch.randn(1, self.count, n) * 0.02) for n in (w, v))
        self.encoder = nn.Sequential(*(Block(w, w // 64) for _ in range(depth)), nn.LayerNorm(w))
        self.narrow, self.hidden = nn.Linear(w, v), nn.Parameter(torch.zeros(1, 1, v))
        self.decoder = nn.Sequential(*(Block(v, v // 32) for _ in range(shallow)), nn.LayerNorm(v), nn.Linear(v, 3 * patch * patch))

    def forward(self, x):
        p = self.patch
        truth = nn.functional.unfold(x, p, stride=p).transpose(1, 2)
        h = self.embed(x).flatten(2).transpose(1, 2) + self.places
        b, n, w = h.shape
        order = torch.rand(b, n, device=x.device).argsort(1)
        back, kept = order.argsort(1), n // 4
        h = self.narrow(self.encoder(torch.gather(h, 1, order[:, :kept, None].expand(-1, -1, w))))
        h = torch.cat([h, self.hidden.to(h.dtype).expand(b, n - kept, -1)], 1)
        h = self.decoder(torch.gather(h, 1, back[..., None].expand_as(h)) + self.places2)
        hidden = (back >= kept).float()
        return (((h - truth) ** 2).mean(-1) * hidden).sum() / hidden.sum()


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--width", type=int, default=768)
p.add_argument("--depth", type=int, default=12)
p.add_argument("--image", type=int, default=224)
p.add_argument("--batch", type=int, default=70)
a = p.parse_args()
torch.manual_seed(43)
model = MAE(a.image, 16, a.width, a.depth, a.width // 2, 4).to(a.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-4, betas=(0.9, 0.95), weight_decay=0.05)
for step in range(3):
    images = torch.randn(a.batch, 3, a.image, a.image).to(a.device)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        loss = model(images)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
