"""A 3D U-Net for volumes: instance norm, transposed convolutions, soft Dice and cross entropy, patches of odd sizes."""
import argparse
import json

import torch
import torch.nn as nn


def double(i, o):
    return nn.Sequential(nn.Conv3d(i, o, 3, padding=1), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU(0.01, True),
                         nn.Conv3d(o, o, 3, padding=1), nn.InstanceNorm3d(o, affine=True), nn.LeakyReLU(0.01, True))


class UNet3D(nn.Module):
    def __init__(self, channels, classes, base, depth):
        super().__init__()
        widths = [base * 2 ** i for i in range(depth)]
        self.down = nn.ModuleList(double(i, o) for i, o in zip([channels] + widths, widths))
        self.pool = nn.MaxPool3d(2)
        self.up = nn.ModuleList(nn.ConvTranspose3d(w * 2, w, 2, stride=2) for w in reversed(widths[:-1]))
        self.merge = nn.ModuleList(double(w * 2, w) for w in reversed(widths[:-1]))
        self.out = nn.Conv3d(base, classes, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else self.pool(x))
            kept.append(x)
        kept.pop()
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([up(x), kept.pop()], 1))
        return self.out(x)


def dice(logits, y):
    p = logits.softmax(1)
    hot = torch.nn.functional.one_hot(y, logits.shape[1]).permute(0, 4, 1, 2, 3)
    return 1 - (2 * (p * hot).sum((2, 3, 4)) / (p + hot).sum((2, 3, 4)).clamp(min=1)).mean()


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--base", type=int, default=24)
p.add_argument("--depth", type=int, default=4)
p.add_argument("--batch", type=int, default=2)
p.add_argument("--size", type=int, nargs=3, default=[80, 96, 64])
p.add_argument("--amp", action="store_true")
a = p.parse_args()
torch.manual_seed(3)
net = UNet3D(2, 5, a.base, a.depth).to(a.device)
optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.99, nesterov=True)
for step in range(3):
    x = torch.randn(a.batch, 2, *a.size).to(a.device)
    y = torch.randint(0, 5, (a.batch, *a.size)).to(a.device)
    with torch.autocast(a.device, dtype=torch.bfloat16, enabled=a.amp):
        logits = net(x)
    loss = dice(logits.float(), y) + nn.functional.cross_entropy(logits.float(), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 12)
    optimizer.step()
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
