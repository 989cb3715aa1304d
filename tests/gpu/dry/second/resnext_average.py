"""ResNeXt, channels last, bf16 autocast, SGD, an average of the weights over the steps, and a validation batch after each step."""
import argparse
import json

import torch
import torchvision
from torch.optim.swa_utils import AveragedModel

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--batch", type=int, default=36)
p.add_argument("--image", type=int, default=208)
p.add_argument("--model", default="resnext50_32x4d")
a = p.parse_args()
torch.manual_seed(67)
model = getattr(torchvision.models, a.model)(num_classes=200).to(a.device, memory_format=torch.channels_last)
average = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
for step in range(4):
    model.train()
    images = torch.randint(0, 256, (a.batch, 3, a.image, a.image), dtype=torch.uint8).to(a.device, non_blocking=True)
    target = torch.randint(0, 200, (a.batch,)).to(a.device)
    images = images.float().div_(255).sub_(0.45).div_(0.22).contiguous(memory_format=torch.channels_last)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        loss = criterion(model(images), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update_parameters(model)
    model.eval()
    with torch.inference_mode(), torch.autocast(a.device, dtype=torch.bfloat16):
        right = (model(images).argmax(1) == target).float().mean()
    print(f"{step} loss {loss.item():.3f} right {right.item():.3f}")
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
