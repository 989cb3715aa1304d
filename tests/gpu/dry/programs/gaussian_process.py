"""A Gaussian process with a deep kernel: Cholesky and triangular solves in float64, LBFGS or Adam."""
import argparse, json, math
import torch
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--points", type=int, default=3500)
p.add_argument("--features", type=int, default=21)
a = p.parse_args()
torch.manual_seed(77)
torch.set_default_dtype(torch.float64)
x, y = torch.randn(a.points, a.features).to(a.device), torch.randn(a.points).to(a.device)
deep = nn.Sequential(nn.Linear(a.features, 500), nn.Tanh(), nn.Linear(500, 9)).to(a.device)
scale, noise = (nn.Parameter(torch.tensor(v, device=a.device)) for v in (0.0, -1.0))
optimizer = torch.optim.Adam([*deep.parameters(), scale, noise], lr=0.01)
for step in range(3):
    z = deep(x)
    k = torch.exp(-0.5 * (z[:, None] - z[None]).pow(2).sum(-1)) * scale.exp() + (noise.exp() + 1e-4) * torch.eye(a.points, device=a.device)
    factor = torch.linalg.cholesky(k)
    alpha = torch.cholesky_solve(y[:, None], factor).squeeze(1)
    loss = 0.5 * y @ alpha + factor.diagonal().log().sum() + 0.5 * a.points * math.log(2 * math.pi)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("nll", loss.item() / a.points)
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
