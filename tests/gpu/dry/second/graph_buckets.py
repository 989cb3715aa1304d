"""Forward and backward as a CUDA graph for each of three lengths, in one pool of memory; the optimizer runs outside of the graphs."""
import argparse
import json
import torch
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--width", type=int, default=768)
p.add_argument("--layers", type=int, default=6)
p.add_argument("--batch", type=int, default=12)
p.add_argument("--lengths", type=int, nargs=3, default=[384, 256, 130])
a = p.parse_args()
cuda = a.device == "cuda"
torch.manual_seed(131)
layer = nn.TransformerEncoderLayer(a.width, 12, 4 * a.width, dropout=0.0, batch_first=True, norm_first=True, activation="gelu")
model = nn.ModuleList([nn.Embedding(20_000, a.width), nn.TransformerEncoder(layer, a.layers, enable_nested_tensor=False), nn.Linear(a.width, 20_000)]).to(a.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)


def micro(x, y):
    with torch.autocast(a.device, dtype=torch.bfloat16, cache_enabled=False):
        loss = nn.functional.cross_entropy(model[2](model[1](model[0](x))).flatten(0, 1), y.flatten())
    loss.backward()
    return loss


inputs = {n: [torch.zeros(a.batch, n, dtype=torch.long, device=a.device) for _ in range(2)] for n in a.lengths}
graphs, losses, pool = {}, {}, None
if cuda:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for n in a.lengths:
            micro(*inputs[n])
    torch.cuda.current_stream().wait_stream(side)
    for w in model.parameters():
        w.grad.zero_()
    for n in a.lengths:
        graphs[n] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[n], pool=pool):
            losses[n] = micro(*inputs[n])
        pool = pool or graphs[n].pool()
for step in range(4):
    optimizer.zero_grad(set_to_none=not cuda)
    for n in (a.lengths[step % 3], a.lengths[(step + 1) % 3]):
        for static in inputs[n]:
            static.copy_(torch.randint(0, 20_000, static.shape))
        if cuda:
            graphs[n].replay()
        else:
            losses[n] = micro(*inputs[n])
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(step, losses[n].item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
