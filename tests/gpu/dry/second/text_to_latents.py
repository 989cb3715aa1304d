"""A latent diffusion U-Net that looks at a text's vectors: checkpointed blocks, fp16 with a GradScaler, text dropped at times."""
import argparse
import json
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Res(nn.Module):
    def __init__(self, i, o, t):
        super().__init__()
        self.a = nn.Sequential(nn.GroupNorm(32, i), nn.SiLU(), nn.Conv2d(i, o, 3, padding=1))
        self.t, self.b = nn.Linear(t, o), nn.Sequential(nn.GroupNorm(32, o), nn.SiLU(), nn.Conv2d(o, o, 3, padding=1))
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        return self.skip(x) + self.b(self.a(x) + self.t(F.silu(t))[:, :, None, None])


class Cross(nn.Module):
    def __init__(self, c, text):
        super().__init__()
        self.norm, self.norms = nn.GroupNorm(32, c), nn.ModuleList(nn.LayerNorm(c) for _ in range(3))
        self.own, self.other = (nn.MultiheadAttention(c, 8, batch_first=True, kdim=k, vdim=k) for k in (c, text))
        self.up, self.down = nn.Linear(c, 8 * c), nn.Linear(4 * c, c)

    def forward(self, x, text):
        b, c, h, w = x.shape
        y = self.norm(x).flatten(2).transpose(1, 2)
        z = self.norms[0](y)
        y = y + self.own(z, z, z, need_weights=False)[0]
        y = y + self.other(self.norms[1](y), text, text, need_weights=False)[0]
        v, gate = self.up(self.norms[2](y)).chunk(2, -1)
        return x + (y + self.down(v * F.gelu(gate))).transpose(1, 2).view(b, c, h, w)


class Level(nn.Module):
    def __init__(self, i, o, t, text):
        super().__init__()
        self.res, self.cross = Res(i, o, t), Cross(o, text)

    def forward(self, x, t, text):
        return checkpoint(lambda *y: self.cross(self.res(*y[:2]), y[2]), x, t, text, use_reentrant=False)


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--base", type=int, default=192)
p.add_argument("--batch", type=int, default=8)
p.add_argument("--size", type=int, nargs=2, default=[48, 40])
a = p.parse_args()
torch.manual_seed(107)
c, text = a.base, 768
widths, t = [c, 2 * c, 4 * c], 4 * c
net = nn.ModuleDict({"time": nn.Sequential(nn.Linear(c, t), nn.SiLU(), nn.Linear(t, t)), "first": nn.Conv2d(4, c, 3, padding=1),
                     "down": nn.ModuleList(Level(i, o, t, text) for i, o in zip([c] + widths, widths)),
                     "up": nn.ModuleList(Level(i, o, t, text) for i, o in zip([8 * c, 6 * c, 3 * c], [4 * c, 2 * c, c])),
                     "last": nn.Sequential(nn.GroupNorm(32, c), nn.SiLU(), nn.Conv2d(c, 4, 3, padding=1))}).to(a.device)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
scaler = torch.amp.GradScaler(a.device, init_scale=512.0)
for step in range(3):
    x, words = torch.randn(a.batch, 4, *a.size).to(a.device), torch.randn(a.batch, 77, text).to(a.device)
    words = words * (torch.rand(a.batch, 1, 1, device=a.device) > 0.1)
    noise, when = torch.randn_like(x), torch.rand(a.batch, device=a.device)
    with torch.autocast(a.device, dtype=torch.float16):
        angle = when[:, None] * torch.arange(c // 2, device=a.device)
        e = net["time"](torch.cat([angle.sin(), angle.cos()], 1))
        h, kept = net["first"](x + when[:, None, None, None] * noise), []
        for i, level in enumerate(net["down"]):
            h = level(F.avg_pool2d(h, 2) if i else h, e, words)
            kept.append(h)
        for i, level in enumerate(net["up"]):
            h = level(torch.cat([F.interpolate(h, scale_factor=2.0) if i else h, kept.pop()], 1), e, words)
        loss = F.mse_loss(net["last"](h).float(), noise)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    print(step, loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
