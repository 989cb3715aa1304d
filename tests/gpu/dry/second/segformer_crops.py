"""SegFormer on crops of two sizes in turn, its logits upsampled to the crop for the loss; fp32, polynomial schedule."""
import argparse
import json

import torch
from transformers import SegformerConfig, SegformerForSemanticSegmentation

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--crops", type=int, nargs=2, default=[384, 512])
p.add_argument("--batch", type=int, default=6)
p.add_argument("--classes", type=int, default=19)
a = p.parse_args()
torch.manual_seed(103)
model = SegformerForSemanticSegmentation(SegformerConfig(num_labels=a.classes, depths=[2, 2, 2, 2], hidden_sizes=[32, 64, 160, 256])).to(a.device)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-5, weight_decay=0.01)
schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=100, power=0.9)
seen = torch.zeros(a.classes, a.classes, dtype=torch.long, device=a.device)
for step in range(4):
    crop = a.crops[step % 2]
    pixels = torch.randn(a.batch, 3, crop, crop).to(a.device)
    labels = torch.randint(0, a.classes, (a.batch, crop, crop))
    labels[:, :5] = 255
    labels = labels.to(a.device)
    logits = model(pixel_values=pixels).logits
    logits = torch.nn.functional.interpolate(logits, size=labels.shape[-2:], mode="bilinear", align_corners=False)
    loss = torch.nn.functional.cross_entropy(logits, labels, ignore_index=255)
    loss.backward()
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    with torch.no_grad():
        pairs = labels.clamp(max=a.classes - 1) * a.classes + logits.argmax(1)
        seen.view(-1).scatter_add_(0, pairs.flatten(), torch.ones_like(pairs.flatten()))
    print("step", step, "loss", loss.item(), "right", (seen.diagonal().sum() / seen.sum()).item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
