"""Parts of a network made graphed callables (forward and backward apart), the loss and the optimizer outside of them."""
import argparse, json
import torch
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--n", type=int, default=2304)
p.add_argument("--batch", type=int, default=2900)
p.add_argument("--blocks", type=int, default=4)
a = p.parse_args()
torch.manual_seed(2)


def part(n):
    return nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.LayerNorm(2 * n), nn.Dropout(0.1), nn.Linear(2 * n, n), nn.Tanh())


parts = [part(a.n).to(a.device) for _ in range(a.blocks)]
head = nn.Linear(a.n, 77).to(a.device)
weights = [q for m in (*parts, head) for q in m.parameters()]
optimizer = torch.optim.SGD(weights, lr=0.05, momentum=0.9, foreach=True)
if a.device == "cuda":
    samples = tuple((torch.randn(a.batch, a.n, device="cuda", requires_grad=True),) for _ in parts)
    parts = torch.cuda.make_graphed_callables(tuple(parts), samples)
    print("captured", len(parts), "parts")
for step in range(3):
    x = torch.randn(a.batch, a.n).to(a.device).requires_grad_()
    for m in parts:
        x = m(x)
    loss = nn.functional.cross_entropy(head(x), torch.randint(0, 77, (a.batch,)).to(a.device))
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
