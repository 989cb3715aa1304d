"""A whole step (forward, backward, capturable optimizer) as a CUDA graph, warmed up on a side stream, then replayed."""
import argparse
import json
import torch
import torch.nn as nn

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--width", type=int, default=1500)
p.add_argument("--layers", type=int, default=6)
p.add_argument("--batch", type=int, default=300)
p.add_argument("--tokens", type=int, default=33)
a = p.parse_args()
cuda = a.device == "cuda"
torch.manual_seed(71)
layer = nn.TransformerEncoderLayer(a.width, 12, 2 * a.width, dropout=0.0, batch_first=True, activation="gelu")
model = nn.Sequential(nn.TransformerEncoder(layer, a.layers, enable_nested_tensor=False), nn.Flatten(), nn.Linear(a.width * a.tokens, 10)).to(a.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=cuda)
x, y = torch.randn(a.batch, a.tokens, a.width, device=a.device), torch.randint(0, 10, (a.batch,), device=a.device)


def step():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(a.device, dtype=torch.bfloat16, cache_enabled=False):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


if cuda:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
for i in range(4):
    x.copy_(torch.randn(a.batch, a.tokens, a.width), non_blocking=True)
    y.copy_(torch.randint(0, 10, (a.batch,)))
    if cuda:
        graph.replay()
    else:
        loss = step()
    print("replayed", i, loss.item())
    print(json.dumps({"step": i, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
