"""Private training: a gradient for each sample by torch.func, each clipped, summed and noised, in chunks of a batch."""
import argparse
import json
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--c", type=int, default=48)
p.add_argument("--image", type=int, default=32)
p.add_argument("--batch", type=int, default=256)
p.add_argument("--chunk", type=int, default=64)
a = p.parse_args()
torch.manual_seed(181)
c = a.c
model = nn.Sequential(
    nn.Conv2d(3, c, 3, padding=1), nn.GroupNorm(8, c), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(c, 2 * c, 3, padding=1), nn.GroupNorm(8, 2 * c), nn.ReLU(),
    nn.AvgPool2d(2), nn.Conv2d(2 * c, 4 * c, 3, padding=1), nn.GroupNorm(8, 4 * c), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
    nn.Linear(64 * c, 256), nn.Tanh(), nn.Linear(256, 10)).to(a.device)
weights = dict(model.named_parameters())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def loss_of(weights, x, y):
    return nn.functional.cross_entropy(functional_call(model, weights, (x[None],)), y[None])


each = vmap(grad(loss_of), in_dims=(None, 0, 0))
for step in range(3):
    x, y = torch.randn(a.batch, 3, a.image, a.image).to(a.device), torch.randint(0, 10, (a.batch,)).to(a.device)
    total = {name: torch.zeros_like(w) for name, w in weights.items()}
    for xs, ys in zip(x.split(a.chunk), y.split(a.chunk)):
        gradients = each({name: w.detach() for name, w in weights.items()}, xs, ys)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
        factor = (1.0 / (norms + 1e-6)).clamp(max=1.0)
        for name, g in gradients.items():
            total[name] += torch.einsum("n,n...->...", factor, g)
        del gradients
    for name, w in weights.items():
        w.grad = (total[name] + torch.randn_like(w)) / a.batch
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "largest norm", norms.max().item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
