"""Contrastive views: a ResNet without its head, a projector, the whole matrix of similarities, LARS-like scaling by hand, half precision sums."""
import argparse, json
import torch
import torchvision
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--model", default="resnet18")
p.add_argument("--batch", type=int, default=150)
p.add_argument("--image", type=int, default=96)
a = p.parse_args()
torch.manual_seed(4)
net = torchvision.models.get_model(a.model, weights=None)
width, net.fc = net.fc.in_features, nn.Identity()
model = nn.Sequential(net, nn.Linear(width, width, bias=False), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 128)).to(a.device)
buffers = [torch.zeros_like(q) for q in model.parameters()]


def views(x):
    flip = torch.rand(len(x), 1, 1, 1, device=x.device) < 0.5
    x = torch.where(flip, x.flip(-1), x)
    return x * (0.6 + 0.8 * torch.rand(len(x), 3, 1, 1, device=x.device)) + 0.05 * torch.randn_like(x)


for step in range(4):
    x = torch.rand(a.batch, 3, a.image, a.image).to(a.device)
    with torch.autocast(a.device, torch.bfloat16):
        z = nn.functional.normalize(model(torch.cat([views(x), views(x)])), dim=1)
    s = (z @ z.T).float() / 0.2
    s.fill_diagonal_(float("-inf"))
    target = (torch.arange(2 * a.batch, device=a.device) + a.batch) % (2 * a.batch)
    loss = nn.functional.cross_entropy(s, target)
    loss.backward()
    with torch.no_grad():
        for q, m in zip(model.parameters(), buffers):
            trust = 0.001 * q.norm() / (q.grad.norm() + 1e-4 * q.norm() + 1e-9)
            m.mul_(0.9).add_(q.grad * trust)
            q.sub_(0.3 * m)
            q.grad = None
    print("nt-xent", loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
