"""SSD on VGG16: boxes are matched to anchors, hard negatives are mined, images of many sizes are brought to one."""
import argparse
import json

import torch
import torchvision

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--batch", type=int, default=9)
p.add_argument("--smallest", type=int, default=200)
a = p.parse_args()
torch.manual_seed(167)
model = torchvision.models.detection.ssd300_vgg16(weights=None, weights_backbone=None, num_classes=21).to(a.device)
model.train()
optimizer = torch.optim.SGD([w for w in model.parameters() if w.requires_grad], lr=0.001, momentum=0.9, weight_decay=5e-4)
for step in range(3):
    images, targets = [], []
    for _ in range(a.batch):
        h, w = (int(n) for n in torch.randint(a.smallest, 2 * a.smallest, (2,)))
        count = int(torch.randint(1, 9, ()))
        corner = torch.rand(count, 2) * 0.6
        boxes = torch.cat([corner, corner + 0.05 + torch.rand(count, 2) * 0.3], 1) * torch.tensor([w, h, w, h])
        images.append(torch.rand(3, h, w).to(a.device))
        targets.append({"boxes": boxes.to(a.device), "labels": torch.randint(1, 21, (count,)).to(a.device)})
    losses = model(images, targets)
    loss = sum(losses.values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, {name: round(value.item(), 3) for name, value in losses.items()})
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
