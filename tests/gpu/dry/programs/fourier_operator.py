"""A Fourier neural operator: FFTs in two dimensions, complex weights, AdamW with weight decay, an evaluation at another resolution."""
import argparse
import json
import torch
import torch.nn as nn


class Spectral(nn.Module):
    def __init__(self, c, modes):
        super().__init__()
        self.modes = modes
        self.w = nn.ParameterList(nn.Parameter(torch.randn(c, c, modes, modes, dtype=torch.cfloat) / c ** 2) for _ in range(2))

    def forward(self, x):
        f, m = torch.fft.rfft2(x), self.modes
        out = torch.zeros_like(f)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, :m, :m], self.w[0])
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, -m:, :m], self.w[1])
        return torch.fft.irfft2(out, s=x.shape[-2:])


class Operator(nn.Module):
    def __init__(self, c, modes, depth):
        super().__init__()
        self.lift, self.spectral = nn.Conv2d(3, c, 1), nn.ModuleList(Spectral(c, modes) for _ in range(depth))
        self.local, self.out = nn.ModuleList(nn.Conv2d(c, c, 1) for _ in range(depth)), nn.Sequential(nn.Conv2d(c, 128, 1), nn.GELU(), nn.Conv2d(128, 1, 1))

    def forward(self, x):
        x = self.lift(x)
        for s, l in zip(self.spectral, self.local):
            x = nn.functional.gelu(s(x) + l(x))
        return self.out(x)


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--c", type=int, default=40)
p.add_argument("--modes", type=int, default=14)
p.add_argument("--depth", type=int, default=4)
p.add_argument("--batch", type=int, default=10)
p.add_argument("--grid", type=int, default=170)
a = p.parse_args()
torch.manual_seed(0)
net = Operator(a.c, a.modes, a.depth).to(a.device)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-4)
for step in range(3):
    x = torch.randn(a.batch, 3, a.grid, a.grid).to(a.device)
    y = torch.randn(a.batch, 1, a.grid, a.grid).to(a.device)
    out = net(x)
    loss = ((out - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        print("relative", loss.item(), "finer", net(torch.randn(1, 3, 2 * a.grid, 2 * a.grid).to(a.device)).abs().mean().item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
