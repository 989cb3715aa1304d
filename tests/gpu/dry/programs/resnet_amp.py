"""ResNet-50, channels last, fp16 autocast with a GradScaler, SGD, an odd batch, weight decay apart."""
import argparse
import json

import torch
import torchvision

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--model", default="resnet50")
parser.add_argument("--batch", type=int, default=45)
parser.add_argument("--image", type=int, default=224)
args = parser.parse_args()


def train():
    torch.manual_seed(0)
    model = torchvision.models.get_model(args.model, weights=None, num_classes=511)
    model = model.to(args.device, memory_format=torch.channels_last)
    norms = [p for n, p in model.named_parameters() if p.ndim == 1]
    others = [p for n, p in model.named_parameters() if p.ndim > 1]
    optimizer = torch.optim.SGD([{"params": others, "weight_decay": 1e-4}, {"params": norms, "weight_decay": 0}], lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler(args.device)
    for step in range(5):
        images = torch.randn(args.batch, 3, args.image, args.image)
        labels = torch.randint(0, 511, (args.batch,))
        images = images.to(args.device, non_blocking=True, memory_format=torch.channels_last)
        labels = labels.to(args.device, non_blocking=True)
        with torch.autocast(args.device, dtype=torch.float16):
            output = model(images)
            loss = torch.nn.functional.cross_entropy(output, labels)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        top1 = (output.argmax(1) == labels).float().mean().item()
        print(f"Epoch: [0][{step}/5] Loss {loss.item():.4e} Acc@1 {100 * top1:.2f}")
        print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))


train()
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
