"""torchvision's RetinaNet: one image size of several per batch, boxes at the end."""
import torch
from torchvision.models.detection import retinanet_resnet50_fpn_v2

from kit import memory, options

a = options(batch=5, sizes=[320, 384, 448, 512], classes=21, lr=0.01)


def scene(classes):
    h, w = (int(n) for n in torch.randint(180, 400, (2,)))
    n = int(torch.randint(1, 9, (1,)))
    corner = torch.rand(n, 2) * torch.tensor([w * 0.6, h * 0.6])
    size = torch.rand(n, 2) * torch.tensor([w * 0.35, h * 0.35]) + 8
    return torch.rand(3, h, w), {"boxes": torch.cat([corner, corner + size], 1), "labels": torch.randint(1, classes, (n,))}


def to(target, device):
    return {k: v.to(device) for k, v in target.items()}


def main():
    torch.manual_seed(1022)
    model = retinanet_resnet50_fpn_v2(weights=None, weights_backbone=None, num_classes=a.classes, min_size=a.sizes, max_size=max(a.sizes) * 4 // 3,
                                      detections_per_img=50).to(a.device)
    optimizer = torch.optim.SGD([w for w in model.parameters() if w.requires_grad], lr=a.lr, momentum=0.9, weight_decay=1e-4)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.001, total_iters=10)
    model.train()
    for step in range(4):
        images, targets = zip(*(scene(a.classes) for _ in range(a.batch)))
        losses = model([i.to(a.device) for i in images], [to(t, a.device) for t in targets])
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warm.step()
        print(step, {k: round(v.item(), 3) for k, v in losses.items()})
        memory(step=step)
    model.eval()
    with torch.inference_mode():
        found = model([scene(a.classes)[0].to(a.device) for _ in range(2)])
    print("found", [len(f["boxes"]) for f in found])


main()
