"""accused.py HOW - a few steps of a small network, all of whose calls are seen."""

import os
import sys

how = sys.argv[1]
conf = {"expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}.get(how)
if conf:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = conf
import torch

model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(256, 2048, device="cuda")


def step():
    optimizer.zero_grad(set_to_none=how != "graphs")
    model(x).square().mean().backward()
    optimizer.step()


if how == "limited":
    torch.cuda.set_per_process_memory_fraction(0.5)
for _ in range(20):
    step()
if how == "graphs":
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)
    graph.replay()
torch.cuda.synchronize()
