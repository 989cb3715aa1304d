"""A diffusion U-Net in plain PyTorch: time embedding, group norm, attention at the lower resolutions, an averaged copy, bf16 or fp32."""
import argparse
import copy
import json
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Res(nn.Module):
    def __init__(self, i, o, t):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(16, i), nn.GroupNorm(16, o)
        self.c1, self.c2 = nn.Conv2d(i, o, 3, padding=1), nn.Conv2d(o, o, 3, padding=1)
        self.t = nn.Linear(t, 2 * o)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        scale, shift = self.t(F.silu(t))[:, :, None, None].chunk(2, 1)
        h = self.n2(self.c1(F.silu(self.n1(x)))) * (1 + scale) + shift
        return self.skip(x) + self.c2(F.dropout(F.silu(h), 0.1, self.training))


class Look(nn.Module):
    def __init__(self, c, heads=4):
        super().__init__()
        self.norm, self.qkv, self.out, self.heads = nn.GroupNorm(16, c), nn.Conv1d(c, 3 * c, 1), nn.Conv1d(c, c, 1), heads

    def forward(self, x, t):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x).flatten(2)).view(b, 3, self.heads, c // self.heads, h * w).transpose(-1, -2).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(b, c, h * w)
        return x + self.out(y).view_as(x)


class UNet(nn.Module):
    def __init__(self, base, multiples, attend):
        super().__init__()
        t, c, kept = 4 * base, base, [base]
        self.base, self.time = base, nn.Sequential(nn.Linear(base, t), nn.SiLU(), nn.Linear(t, t))
        self.first, self.down, self.up = nn.Conv2d(3, base, 3, padding=1), nn.ModuleList(), nn.ModuleList()
        for level, m in enumerate(multiples):
            for _ in range(2):
                self.down.append(nn.ModuleList([Res(c, base * m, t)] + ([Look(base * m)] if level in attend else [])))
                c = base * m
                kept.append(c)
            if level + 1 < len(multiples):
                self.down.append(nn.Conv2d(c, c, 3, stride=2, padding=1))
                kept.append(c)
        self.middle = nn.ModuleList([Res(c, c, t), Look(c), Res(c, c, t)])
        for level, m in reversed(list(enumerate(multiples))):
            for _ in range(3):
                self.up.append(nn.ModuleList([Res(c + kept.pop(), base * m, t)] + ([Look(base * m)] if level in attend else [])))
                c = base * m
            if level:
                self.up.append(nn.Conv2d(c, c, 3, padding=1))
        self.last = nn.Sequential(nn.GroupNorm(16, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))

    def forward(self, x, t):
        f = torch.exp(-math.log(10000) * torch.arange(self.base // 2, device=x.device) / (self.base // 2)) * t[:, None]
        t = self.time(torch.cat([f.sin(), f.cos()], 1))
        x = self.first(x)
        kept = [x]
        for part in self.down:
            for layer in part if isinstance(part, nn.ModuleList) else []:
                x = layer(x, t)
            if not isinstance(part, nn.ModuleList):
                x = part(x)
            kept.append(x)
        for layer in self.middle:
            x = layer(x, t)
        for part in self.up:
            if isinstance(part, nn.ModuleList):
                x = torch.cat([x, kept.pop()], 1)
                for layer in part:
                    x = layer(x, t)
            else:
                x = part(F.interpolate(x, scale_factor=2, mode="nearest"))
        return self.last(x)


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--base", type=int, default=96)
p.add_argument("--batch", type=int, default=11)
p.add_argument("--image", type=int, default=64)
p.add_argument("--dtype", default="bf16", choices=["bf16", "fp32"])
a = p.parse_args()
torch.manual_seed(0)
net = UNet(a.base, (1, 2, 2, 3), (1, 2)).to(a.device)
ema = copy.deepcopy(net).eval().requires_grad_(False)
optimizer = torch.optim.AdamW(net.parameters(), lr=2e-4)
alphas = torch.linspace(1 - 1e-4, 1 - 0.02, 1000).cumprod(0).to(a.device)
for step in range(4):
    x = torch.randn(a.batch, 3, a.image, a.image).to(a.device)
    t = torch.randint(0, 1000, (a.batch,), device=a.device)
    noise = torch.randn_like(x)
    k = alphas[t][:, None, None, None]
    with torch.autocast(a.device, dtype=torch.bfloat16, enabled=a.dtype == "bf16"):
        loss = F.mse_loss(net(k.sqrt() * x + (1 - k).sqrt() * noise, t.float()), noise)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    torch._foreach_lerp_(list(ema.parameters()), list(net.parameters()), 1e-3)
    print("step", step, "mse", loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
