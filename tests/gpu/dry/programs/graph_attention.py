"""A graph network with attention over edges: scatter by index_add and scatter_reduce, batches of graphs of uneven sizes, degrees by bincount."""
import argparse
import json

import torch
import torch.nn as nn


class Attend(nn.Module):
    def __init__(self, i, o, heads):
        super().__init__()
        self.h, self.o = heads, o // heads
        self.w, self.a = nn.Linear(i, o, bias=False), nn.Parameter(torch.randn(heads, 2 * self.o) * 0.1)
        self.norm = nn.BatchNorm1d(o)

    def forward(self, x, source, target):
        n = x.shape[0]
        h = self.w(x).view(n, self.h, self.o)
        e = nn.functional.leaky_relu((torch.cat([h[source], h[target]], -1) * self.a).sum(-1), 0.2)
        top = torch.full((n, self.h), -1e9, device=x.device).scatter_reduce(0, target[:, None].expand_as(e), e.detach(), "amax")
        e = (e - top[target]).exp()
        total = torch.zeros(n, self.h, device=x.device).index_add(0, target, e)
        y = torch.zeros_like(h).index_add(0, target, h[source] * (e / (total[target] + 1e-9)).unsqueeze(-1))
        return torch.relu(self.norm(y.flatten(1)))


def graphs(generator, count, nodes, degree):
    sizes = torch.randint(nodes // 3, nodes, (count,), generator=generator)
    start = sizes.cumsum(0) - sizes
    edges = [torch.randint(0, int(n), (2, int(n) * degree), generator=generator) + s for n, s in zip(sizes, start)]
    return int(sizes.sum()), torch.cat(edges, 1), torch.repeat_interleave(torch.arange(count), sizes)


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--width", type=int, default=264)
p.add_argument("--layers", type=int, default=4)
p.add_argument("--graphs", type=int, default=90)
p.add_argument("--nodes", type=int, default=700)
p.add_argument("--degree", type=int, default=6)
a = p.parse_args()
torch.manual_seed(8)
rng = torch.Generator().manual_seed(8)
layers = nn.ModuleList(Attend(33 if i == 0 else a.width, a.width, 4) for i in range(a.layers)).to(a.device)
out = nn.Linear(a.width + 1, 7).to(a.device)
optimizer = torch.optim.Adam([*layers.parameters(), *out.parameters()], lr=5e-3, weight_decay=5e-4)
for step in range(4):
    n, edges, belongs = graphs(rng, a.graphs, a.nodes, a.degree)
    x, (source, target), belongs = torch.randn(n, 33, generator=rng).to(a.device), edges.to(a.device), belongs.to(a.device)
    degree = torch.bincount(target, minlength=n).float()[:, None]
    for layer in layers:
        x = layer(x, source, target)
    pooled = torch.zeros(a.graphs, a.width + 1, device=a.device).index_add(0, belongs, torch.cat([x, degree], 1))
    loss = nn.functional.cross_entropy(out(pooled), torch.randint(0, 7, (a.graphs,), generator=rng).to(a.device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"nodes {n} edges {edges.shape[1]} loss {loss.item():.3f}")
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
