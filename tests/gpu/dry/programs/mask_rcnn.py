"""torchvision's Mask R-CNN without weights: images of several sizes, boxes and masks; proposals and their number come from the network."""
import argparse
import json
import random

import torch
import torchvision

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=3)
parser.add_argument("--smallest", type=int, default=480)
parser.add_argument("--boxes", type=int, default=9)
args = parser.parse_args()


def sample(rng):
    h, w = rng.randint(300, 500), rng.randint(300, 600)
    n = rng.randint(1, args.boxes)
    x, y = torch.rand(n) * (w - 60), torch.rand(n) * (h - 60)
    boxes = torch.stack([x, y, x + 20 + torch.rand(n) * 40, y + 20 + torch.rand(n) * 40], 1)
    masks = torch.zeros(n, h, w, dtype=torch.uint8)
    for i, (a, b, c, d) in enumerate(boxes.int().tolist()):
        masks[i, b:d, a:c] = 1
    return torch.rand(3, h, w), {"boxes": boxes, "labels": torch.randint(1, 21, (n,)), "masks": masks}


torch.manual_seed(6)
rng = random.Random(6)
model = torchvision.models.detection.maskrcnn_resnet50_fpn(
    weights=None, weights_backbone=None, num_classes=21, min_size=args.smallest, max_size=args.smallest * 2, trainable_backbone_layers=3)
model.to(args.device).train()
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.002, momentum=0.9, weight_decay=1e-4)
for step in range(4):
    samples = [sample(rng) for _ in range(args.batch)]
    images = [image.to(args.device) for image, _ in samples]
    targets = [{k: v.to(args.device) for k, v in target.items()} for _, target in samples]
    losses = model(images, targets)
    total = sum(losses.values())
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
    print({k: round(v.item(), 3) for k, v in losses.items()})
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
