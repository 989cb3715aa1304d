"""Inception v3 with its auxiliary classifier, in fp32, Nesterov SGD, some weights frozen."""
import argparse
import json

import torch
import torchvision

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--batch", type=int, default=27)
parser.add_argument("--image", type=int, default=299)
parser.add_argument("--steps", type=int, default=3)
args = parser.parse_args()
torch.manual_seed(11)
model = torchvision.models.inception_v3(weights=None, num_classes=45, aux_logits=True, init_weights=False)
for part in (model.Conv2d_1a_3x3, model.Conv2d_2a_3x3, model.Conv2d_2b_3x3):
    part.requires_grad_(False)
model.to(args.device).train()
optimizer = torch.optim.SGD((w for w in model.parameters() if w.requires_grad), lr=0.01, momentum=0.9, nesterov=True)
for step in range(args.steps):
    images, labels = torch.rand(args.batch, 3, args.image, args.image), torch.randint(0, 45, (args.batch,))
    images, labels = images.to(args.device), labels.to(args.device)
    out = model(images)
    loss = torch.nn.functional.cross_entropy(out.logits, labels) + 0.4 * torch.nn.functional.cross_entropy(out.aux_logits, labels)
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
