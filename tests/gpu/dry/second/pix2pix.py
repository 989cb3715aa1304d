"""Image to image, adversarial: an encoder and decoder with skips, a patch discriminator with spectral norm, hinge and L1 losses."""
import argparse
import json
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm


class Generator(nn.Module):
    def __init__(self, c, depth):
        super().__init__()
        widths = [min(c * 2 ** i, 8 * c) for i in range(depth)]
        self.down = nn.ModuleList(nn.Sequential(nn.LeakyReLU(0.2) if k else nn.Identity(), nn.Conv2d(i, o, 4, 2, 1), nn.BatchNorm2d(o) if k else nn.Identity())
                                  for k, (i, o) in enumerate(zip([3] + widths, widths)))
        self.up = nn.ModuleList(nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(widths[k] * (1 if k == depth - 1 else 2), widths[k - 1] if k else 3, 4, 2, 1),
                                              nn.Tanh() if k == 0 else nn.BatchNorm2d(widths[k - 1]), nn.Dropout(0.5 if k > depth - 3 else 0.0))
                                for k in reversed(range(depth)))

    def forward(self, x):
        kept = []
        for layer in self.down:
            x = layer(x)
            kept.append(x)
        kept.pop()
        for layer in self.up:
            x = layer(x)
            if kept:
                x = torch.cat([x, kept.pop()], 1)
        return x


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--c", type=int, default=64)
p.add_argument("--depth", type=int, default=7)
p.add_argument("--image", type=int, default=256)
p.add_argument("--batch", type=int, default=9)
a = p.parse_args()
torch.manual_seed(113)
g = Generator(a.c, a.depth).to(a.device)
layers, i = [], 6
for o, stride in ((a.c, 2), (2 * a.c, 2), (4 * a.c, 2), (8 * a.c, 1)):
    layers += [spectral_norm(nn.Conv2d(i, o, 4, stride, 1)), nn.LeakyReLU(0.2, inplace=True)]
    i = o
d = nn.Sequential(*layers, nn.Conv2d(i, 1, 4, 1, 1)).to(a.device)
og, od = (torch.optim.Adam(m.parameters(), lr=2e-4, betas=(0.5, 0.999)) for m in (g, d))
for step in range(3):
    source, target = (torch.rand(a.batch, 3, a.image, a.image).mul(2).sub(1).to(a.device) for _ in range(2))
    made = g(source)
    od.zero_grad()
    ld = (1 - d(torch.cat([source, target], 1))).relu().mean() + (1 + d(torch.cat([source, made.detach()], 1))).relu().mean()
    ld.backward()
    od.step()
    og.zero_grad()
    d.requires_grad_(False)
    lg = -d(torch.cat([source, made], 1)).mean() + 100 * (made - target).abs().mean()
    lg.backward()
    d.requires_grad_(True)
    og.step()
    print(f"{step} d {ld.item():.3f} g {lg.item():.3f}")
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
