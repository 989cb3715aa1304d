"""Flow matching over paths of a robot: a one-dimensional U-Net with FiLM, an averaged copy, samples by a few Euler steps after each update."""
import argparse
import copy
import json
import torch
from torch import nn


class Res(nn.Module):
    def __init__(self, i, o, t):
        super().__init__()
        self.a = nn.Sequential(nn.Conv1d(i, o, 5, padding=2), nn.GroupNorm(8, o), nn.Mish())
        self.b = nn.Sequential(nn.Conv1d(o, o, 5, padding=2), nn.GroupNorm(8, o), nn.Mish())
        self.film, self.skip = nn.Sequential(nn.Mish(), nn.Linear(t, 2 * o)), nn.Conv1d(i, o, 1)

    def forward(self, x, t):
        scale, shift = self.film(t).unsqueeze(-1).chunk(2, 1)
        return self.b(self.a(x) * (1 + scale) + shift) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, channels, widths, t):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, t), nn.Mish(), nn.Linear(t, t))
        self.down = nn.ModuleList(Res(i, o, t) for i, o in zip([channels] + widths, widths))
        self.shrink = nn.ModuleList(nn.Conv1d(w, w, 3, 2, 1) for w in widths[:-1])
        self.up = nn.ModuleList(Res(2 * i, o, t) for i, o in zip(widths[:0:-1], widths[-2::-1]))
        self.grow = nn.ModuleList(nn.ConvTranspose1d(w, w, 4, 2, 1) for w in widths[-2::-1])
        self.middle, self.last = Res(widths[-1], widths[-1], t), nn.Conv1d(widths[0], channels, 1)

    def forward(self, x, t):
        t, kept = self.time(t[:, None]), []
        for i, res in enumerate(self.down):
            x = res(x, t)
            kept.append(x)
            if i < len(self.shrink):
                x = self.shrink[i](x)
        x = self.middle(x, t)
        for res, grow in zip(self.up, self.grow):
            x = grow(res(torch.cat([x, kept.pop()], 1), t))
        return self.last(x)


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--width", type=int, default=256)
p.add_argument("--batch", type=int, default=256)
p.add_argument("--length", type=int, default=64)
a = p.parse_args()
torch.manual_seed(109)
net = UNet(7, [a.width, 2 * a.width, 4 * a.width], 256).to(a.device)
ema = copy.deepcopy(net).requires_grad_(False)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=1e-6)
for step in range(4):
    paths = torch.randn(a.batch, 7, a.length).to(a.device)
    noise, t = torch.randn_like(paths), torch.rand(a.batch, device=a.device)
    mixed = torch.lerp(noise, paths, t[:, None, None])
    loss = (net(mixed, t) - (paths - noise)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mine, theirs in zip(ema.parameters(), net.parameters()):
            mine.mul_(0.99).add_(theirs, alpha=0.01)
        sample = torch.randn(a.batch // 4, 7, a.length, device=a.device)
        for i in range(5):
            sample += ema(sample, torch.full((len(sample),), i / 5, device=a.device)) / 5
    print("step", step, "loss", loss.item(), "spread", sample.std().item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
