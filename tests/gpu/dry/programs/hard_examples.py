"""Detection-like dense prediction with hard examples: only pixels whose loss is above a threshold count, the rest is dropped by a mask."""
import argparse
import json
import torch
import torch.nn as nn
import torch.nn.functional as F


class Pyramid(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.stages = nn.ModuleList(nn.Sequential(nn.Conv2d(3 if i == 0 else c * i, c * (i + 1), 3, 2, 1), nn.GroupNorm(4, c * (i + 1)), nn.ReLU(),
                                                  nn.Conv2d(c * (i + 1), c * (i + 1), 3, 1, 1), nn.ReLU()) for i in range(4))
        self.side = nn.ModuleList(nn.Conv2d(c * (i + 1), 2 * c, 1) for i in range(4))
        self.heat, self.box = nn.Conv2d(2 * c, 12, 3, 1, 1), nn.Conv2d(2 * c, 4, 3, 1, 1)

    def forward(self, x):
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        y = self.side[3](features[3])
        for i in (2, 1, 0):
            y = self.side[i](features[i]) + F.interpolate(y, size=features[i].shape[2:], mode="bilinear")
        return self.heat(y), self.box(y)


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--c", type=int, default=64)
p.add_argument("--batch", type=int, default=7)
p.add_argument("--image", type=int, default=390)
p.add_argument("--threshold", type=float, default=2.5)
a = p.parse_args()
torch.manual_seed(19)
net = Pyramid(a.c).to(a.device)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for step in range(3):
    image = torch.rand(a.batch, 3, a.image, a.image).to(a.device)
    heat, box = net(image)
    label = torch.randint(0, 12, (a.batch, *heat.shape[2:])).to(a.device)
    each = F.cross_entropy(heat, label, reduction="none")
    hard = torch.masked_select(each, each > a.threshold)
    sure = heat.softmax(1).amax(1) > 0.12
    chosen = box.permute(0, 2, 3, 1)[sure]
    loss = hard.mean() if hard.numel() else each.mean()
    if len(chosen):
        loss = loss + F.smooth_l1_loss(chosen, torch.zeros_like(chosen))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("hard", hard.numel(), "sure", len(chosen), "of", each.numel())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
