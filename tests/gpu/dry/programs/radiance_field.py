"""A radiance field: rays in chunks, positional encoding, coarse and fine samples by a sorted draw, gradients summed over the chunks."""
import argparse
import json
import torch
import torch.nn as nn


def encode(x, n):
    f = 2.0 ** torch.arange(n, device=x.device) * torch.pi
    y = (x[..., None] * f).flatten(-2)
    return torch.cat([x, y.sin(), y.cos()], -1)


class Field(nn.Module):
    def __init__(self, w, depth):
        super().__init__()
        i = 3 + 6 * 10
        self.layers = nn.ModuleList(nn.Linear(i if n == 0 else w + (i if n == depth // 2 else 0), w) for n in range(depth))
        self.skip, self.density = depth // 2, nn.Linear(w, 1)
        self.colour = nn.Sequential(nn.Linear(w + 3 + 6 * 4, w // 2), nn.ReLU(), nn.Linear(w // 2, 3), nn.Sigmoid())

    def forward(self, x, d):
        e = encode(x, 10)
        h = e
        for n, layer in enumerate(self.layers):
            h = torch.relu(layer(torch.cat([h, e], -1) if n == self.skip else h))
        return torch.relu(self.density(h)).squeeze(-1), self.colour(torch.cat([h, encode(d, 4)[:, None].expand(-1, x.shape[1], -1)], -1))


def render(field, origin, direction, t):
    density, colour = field(origin[:, None] + direction[:, None] * t[..., None], direction)
    gap = torch.cat([t[:, 1:] - t[:, :-1], torch.full_like(t[:, :1], 1e2)], 1)
    alpha = 1 - torch.exp(-density * gap)
    weight = alpha * torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], 1), 1)[:, :-1]
    return (weight[..., None] * colour).sum(1), weight


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--rays", type=int, default=5000)
p.add_argument("--chunk", type=int, default=1800)
p.add_argument("--width", type=int, default=256)
p.add_argument("--samples", type=int, default=48)
a = p.parse_args()
torch.manual_seed(36)
coarse, fine = Field(a.width, 8).to(a.device), Field(a.width, 8).to(a.device)
optimizer = torch.optim.Adam([*coarse.parameters(), *fine.parameters()], lr=5e-4)
for step in range(3):
    o, d, c = (torch.rand(a.rays, 3).to(a.device) for _ in range(3))
    optimizer.zero_grad()
    for oc, dc, cc in zip(o.split(a.chunk), d.split(a.chunk), c.split(a.chunk)):
        t = torch.linspace(2, 6, a.samples, device=a.device) + torch.rand(len(oc), a.samples, device=a.device) * 0.08
        first, weight = render(coarse, oc, dc, t)
        drawn = torch.multinomial(weight.detach() + 1e-5, a.samples, replacement=True)
        t = torch.cat([t, t.gather(1, drawn) + 0.01], 1).sort(1).values
        second, _ = render(fine, oc, dc, t)
        loss = ((first - cc).pow(2).mean() + (second - cc).pow(2).mean()) * len(oc) / a.rays
        loss.backward()
    optimizer.step()
    print("psnr of the last chunk", -10 * torch.log10(loss).item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
