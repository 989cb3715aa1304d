"""Semantic segmentation with torchvision's DeepLab or FCN: an auxiliary loss, ignored pixels, poly schedule, frozen batch norms."""
import argparse, json
import torch, torchvision
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--model", default="deeplabv3_resnet50")
p.add_argument("--batch", type=int, default=6)
p.add_argument("--crop", type=int, default=321)
p.add_argument("--classes", type=int, default=19)
p.add_argument("--half", action="store_true")
a = p.parse_args()
torch.manual_seed(17)
net = torchvision.models.get_model(a.model, weights=None, weights_backbone=None, num_classes=a.classes, aux_loss=True).to(a.device)
net.train()
for module in net.backbone.modules():
    if isinstance(module, nn.BatchNorm2d):
        module.eval()
        module.weight.requires_grad_(False)
        module.bias.requires_grad_(False)
opt = torch.optim.SGD([{"params": [q for q in net.backbone.parameters() if q.requires_grad]},
                       {"params": list(net.classifier.parameters()) + list(net.aux_classifier.parameters()), "lr": 0.1}], lr=0.01, momentum=0.9)
poly = torch.optim.lr_scheduler.PolynomialLR(opt, 100, 0.9)
criterion = nn.CrossEntropyLoss(ignore_index=255)
for step in range(3):
    image = torch.randn(a.batch, 3, a.crop, a.crop).to(a.device)
    label = torch.randint(0, a.classes, (a.batch, a.crop, a.crop))
    label[:, :9] = 255
    label = label.to(a.device)
    with torch.autocast(a.device, dtype=torch.bfloat16, enabled=a.half):
        out = net(image)
        loss = criterion(out["out"], label) + 0.5 * criterion(out["aux"], label)
    opt.zero_grad()
    loss.backward()
    opt.step()
    poly.step()
    guess = out["out"].argmax(1)
    matrix = torch.bincount((label.clamp(max=a.classes - 1) * a.classes + guess).flatten(), minlength=a.classes ** 2)
    print("loss", loss.item(), "pixels", int(matrix.sum()))
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
