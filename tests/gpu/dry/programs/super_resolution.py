"""Super-resolution: dense residual blocks and pixel shuffle, Charbonnier loss, an adversary from the second step on; bf16."""
import argparse, json
import torch
from torch import nn
import torch.nn.functional as F


class Dense(nn.Module):
    def __init__(self, c, g):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(c + i * g, g if i < 4 else c, 3, padding=1) for i in range(5))

    def forward(self, x):
        seen = [x]
        for i, conv in enumerate(self.convs):
            y = conv(torch.cat(seen, 1))
            seen.append(F.leaky_relu(y, 0.2) if i < 4 else y)
        return x + 0.2 * seen[-1]


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--c", type=int, default=50)
p.add_argument("--blocks", type=int, default=7)
p.add_argument("--batch", type=int, default=6)
p.add_argument("--low", type=int, default=65)
a = p.parse_args()
torch.manual_seed(64)
G = nn.Sequential(nn.Conv2d(3, a.c, 3, padding=1), *[Dense(a.c, 28) for _ in range(a.blocks)], nn.Conv2d(a.c, 4 * a.c, 3, padding=1),
                  nn.PixelShuffle(2), nn.PReLU(), nn.Conv2d(a.c, 3, 9, padding=4)).to(a.device)
D = nn.Sequential(nn.Conv2d(3, 48, 5, 2, 2), nn.LeakyReLU(0.2, True), nn.Conv2d(48, 96, 5, 2, 2), nn.LeakyReLU(0.2, True), nn.Conv2d(96, 1, 3)).to(a.device)
g = torch.optim.Adam(G.parameters(), 2e-4)
d = torch.optim.Adam(D.parameters(), 2e-4)
for step in range(4):
    high = torch.rand(a.batch, 3, 2 * a.low, 2 * a.low).to(a.device)
    low = F.interpolate(high, scale_factor=0.5, mode="bicubic", antialias=True)
    with torch.autocast(a.device, torch.bfloat16):
        made = G(low)
        loss = ((made.float() - high).pow(2) + 1e-6).sqrt().mean()
        if step >= 1:
            loss = loss + 1e-3 * F.softplus(-D(made)).mean()
    g.zero_grad()
    loss.backward()
    g.step()
    if step >= 1:
        with torch.autocast(a.device, torch.bfloat16):
            other = F.softplus(D(made.detach())).mean() + F.softplus(-D(high)).mean()
        d.zero_grad()
        other.backward()
        d.step()
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
