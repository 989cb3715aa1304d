"""Short clips by a (2+1)-dimensional ResNet, bf16 autocast, two clips of a video averaged, gradient accumulation."""
import argparse
import json

import torch
import torchvision

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--batch", type=int, default=4)
p.add_argument("--frames", type=int, default=12)
p.add_argument("--image", type=int, default=112)
p.add_argument("--model", default="r2plus1d_18")
a = p.parse_args()
torch.manual_seed(79)
model = getattr(torchvision.models.video, a.model)(num_classes=51).to(a.device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
for step in range(3):
    for part in range(2):
        clips = torch.rand(a.batch, 2, 3, a.frames, a.image, a.image).to(a.device)
        labels = torch.randint(0, 51, (a.batch,)).to(a.device)
        with torch.autocast(a.device, dtype=torch.bfloat16):
            scores = model(clips.flatten(0, 1)).view(a.batch, 2, -1).mean(1)
            loss = torch.nn.functional.cross_entropy(scores, labels) / 2
        loss.backward()
    torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, loss.item() * 2)
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
