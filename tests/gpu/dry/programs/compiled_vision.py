"""A ConvMixer-like network, compiled, channels last, bf16; the compiled graph breaks once because of a print."""
import argparse
import json
import torch
import torch.nn as nn


class Mixer(nn.Module):
    def __init__(self, d, kernel):
        super().__init__()
        self.wide = nn.Sequential(nn.Conv2d(d, d, kernel, groups=d, padding="same"), nn.GELU(), nn.BatchNorm2d(d))
        self.point = nn.Sequential(nn.Conv2d(d, d, 1), nn.GELU(), nn.BatchNorm2d(d))

    def forward(self, x):
        return self.point(x + self.wide(x))


class Net(nn.Module):
    def __init__(self, d, depth, patch, kernel, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, d, patch, patch), nn.GELU(), nn.BatchNorm2d(d))
        self.body = nn.Sequential(*(Mixer(d, kernel) for _ in range(depth)))
        self.head = nn.Linear(d, classes)
        self.seen = 0

    def forward(self, x):
        x = self.body(self.stem(x))
        torch._dynamo.graph_break()
        return self.head(x.mean((2, 3)))


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--d", type=int, default=416)
p.add_argument("--depth", type=int, default=6)
p.add_argument("--batch", type=int, default=30)
p.add_argument("--image", type=int, default=196)
a = p.parse_args()
torch.manual_seed(2)
model = Net(a.d, a.depth, 7, 9, 200).to(a.device, memory_format=torch.channels_last)
fast = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(3):
    x = torch.randn(a.batch, 3, a.image, a.image).to(a.device).contiguous(memory_format=torch.channels_last)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(fast(x), torch.randint(0, 200, (a.batch,)).to(a.device))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
