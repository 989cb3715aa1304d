"""A frozen U-Net; a copy of its way down enters by convolutions of zeros."""
import copy
import math
import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class Residual(nn.Module):
    def __init__(self, i, o, t):
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, i), nn.SiLU(), nn.Conv2d(i, o, 3, padding=1))
        self.time, self.second = nn.Linear(t, o), nn.Sequential(nn.GroupNorm(32, o), nn.SiLU(), nn.Conv2d(o, o, 3, padding=1))
        self.short = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        return self.short(x) + self.second(self.first(x) + self.time(t)[..., None, None])


class Linear(nn.Module):
    """Attention that is linear in the number of pixels."""
    def __init__(self, c, heads=4):
        super().__init__()
        self.heads, self.norm, self.qkv, self.out = heads, nn.GroupNorm(1, c), nn.Conv2d(c, 3 * c, 1, bias=False), nn.Conv2d(c, c, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = (s.reshape(b, self.heads, c // self.heads, h * w) for s in self.qkv(self.norm(x)).chunk(3, 1))
        context = torch.einsum("bhdn,bhen->bhde", k.softmax(-1), v)
        return x + self.out(torch.einsum("bhde,bhdn->bhen", context, q.softmax(-2)).reshape(b, c, h, w))


class Down(nn.Module):
    def __init__(self, widths, t):
        super().__init__()
        self.start = nn.Conv2d(3, widths[0], 3, padding=1)
        self.levels = nn.ModuleList(nn.ModuleList([Residual(i, o, t), Linear(o), nn.Conv2d(4 * o, o, 1)]) for i, o in zip(widths[:1] + widths, widths))
        self.middle = Residual(widths[-1], widths[-1], t)

    def forward(self, x, t, hint=None):
        x, kept = self.start(x) if hint is None else self.start(x) + hint, []
        for block, attention, shrink in self.levels:
            x = attention(block(x, t))
            kept.append(x)
            x = shrink(F.pixel_unshuffle(x, 2))
        return kept, self.middle(x, t)


class UNet(nn.Module):
    def __init__(self, widths):
        super().__init__()
        t = 4 * widths[0]
        self.t, self.time = widths[0], nn.Sequential(nn.Linear(widths[0], t), nn.SiLU(), nn.Linear(t, t), nn.SiLU())
        self.down = Down(widths, t)
        self.up = nn.ModuleList(nn.ModuleList([Residual(o + i, i, t), Linear(i)]) for i, o in reversed(list(zip(widths, widths[1:] + widths[-1:]))))
        self.end = nn.Sequential(nn.GroupNorm(32, widths[0]), nn.SiLU(), nn.Conv2d(widths[0], 3, 3, padding=1))

    def when(self, t):
        f = t[:, None] * torch.exp(torch.arange(self.t // 2, device=t.device) * (-math.log(1e4) / (self.t // 2)))
        return self.time(torch.cat([f.sin(), f.cos()], 1))

    def forward(self, x, t, extra):
        t = self.when(t)
        kept, x = self.down(x, t)
        x = x + extra[-1]
        for (block, attention), skip, more in zip(self.up, reversed(kept), reversed(extra[:-1])):
            x = attention(block(torch.cat([F.interpolate(x, scale_factor=2.0), skip + more], 1), t))
        return self.end(x)


a = options(widths=[96, 192, 288, 384], batch=14, image=96)
torch.manual_seed(1027)
unet = UNet(a.widths).to(a.device).requires_grad_(False)
branch = copy.deepcopy(unet.down).requires_grad_(True)
hint = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.SiLU(), nn.Conv2d(32, a.widths[0], 3, padding=1)).to(a.device)
zeros = nn.ModuleList(nn.Conv2d(c, c, 1) for c in a.widths + a.widths[-1:]).to(a.device)
for w in zeros.parameters():
    nn.init.zeros_(w)
weights = [*branch.parameters(), *hint.parameters(), *zeros.parameters()]
optimizer = torch.optim.AdamW(weights, lr=1e-5)
scaler = torch.amp.GradScaler(a.device, init_scale=2.0 ** 12)
signal = torch.cos(torch.linspace(0, 1, 1000) * math.pi / 2).to(a.device)
for step in range(4):
    x = torch.rand(a.batch, 3, a.image, a.image).mul(2).sub(1).to(a.device)
    edges = (torch.rand(a.batch, 1, a.image, a.image) > 0.9).float().to(a.device)
    t, noise = torch.randint(0, 1000, (a.batch,), device=a.device), torch.randn_like(x)
    s = signal[t][:, None, None, None]
    noisy = s * x + (1 - s * s).sqrt() * noise
    with torch.autocast(a.device, dtype=torch.float16):
        kept, middle = branch(noisy, unet.when(t.float()), hint(edges))
        guess = unet(noisy, t.float(), [zero(k) for zero, k in zip(zeros, kept + [middle])])
        loss = F.mse_loss(guess.float(), noise)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item(), "scale", scaler.get_scale())
    memory(step=step)
