"""A wide residual network for small images as many write it: cudnn.benchmark, a pinned DataLoader, cosine schedule, an evaluation each epoch."""
import argparse
import json
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Wide(nn.Module):
    def __init__(self, i, o, stride, drop=0.3):
        super().__init__()
        self.bn1, self.bn2 = nn.BatchNorm2d(i), nn.BatchNorm2d(o)
        self.conv1 = nn.Conv2d(i, o, 3, padding=1, bias=True)
        self.conv2 = nn.Conv2d(o, o, 3, stride=stride, padding=1, bias=True)
        self.drop = nn.Dropout(drop)
        self.short = nn.Conv2d(i, o, 1, stride=stride) if stride != 1 or i != o else nn.Identity()

    def forward(self, x):
        y = self.drop(self.conv1(F.relu(self.bn1(x))))
        return self.conv2(F.relu(self.bn2(y))) + self.short(x)


def network(k, n):
    layers, i = [nn.Conv2d(3, 16, 3, padding=1)], 16
    for o, stride in ((16 * k, 1), (32 * k, 2), (64 * k, 2)):
        for j in range(n):
            layers.append(Wide(i, o, stride if j == 0 else 1))
            i = o
    return nn.Sequential(*layers, nn.BatchNorm2d(i), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(i, 100))


parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--widen", type=int, default=9)
parser.add_argument("--depth", type=int, default=3)
parser.add_argument("--batch", type=int, default=120)
args = parser.parse_args()
torch.backends.cudnn.benchmark = True
torch.manual_seed(10)
model = network(args.widen, args.depth).to(args.device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
data = TensorDataset(torch.randn(args.batch * 3 + 17, 3, 32, 32), torch.randint(0, 100, (args.batch * 3 + 17,)))
loader = DataLoader(data, args.batch, shuffle=True, pin_memory=args.device == "cuda", num_workers=2, generator=torch.Generator().manual_seed(0))
for step, (x, y) in enumerate(loader):
    x, y = x.to(args.device, non_blocking=True), y.to(args.device, non_blocking=True)
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print("| Epoch 1 Iter[%d/%d] Loss: %.4f" % (step + 1, len(loader), loss.item()))
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
model.eval()
with torch.no_grad():
    right = sum((model(x.to(args.device)).argmax(1).cpu() == y).sum().item() for x, y in DataLoader(data, 2 * args.batch))
print("accuracy", right / len(data))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
