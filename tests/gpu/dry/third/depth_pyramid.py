"""Depth of one image: torchvision's encoder, masked losses, sizes in turn."""
import torch
import torchvision
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class Up(nn.Module):
    def __init__(self, i, skip, o):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(i + skip, o, 3, padding=1, padding_mode="reflect"), nn.ELU(), nn.Conv2d(o, o, 3, padding=1, padding_mode="reflect"), nn.ELU())

    def forward(self, x, skip):
        size = skip.shape[-2:] if skip is not None else [2 * n for n in x.shape[-2:]]
        x = F.interpolate(x, size=size, mode="bilinear", align_corners=False)
        return self.conv(x if skip is None else torch.cat([x, skip], 1))


class Depth(nn.Module):
    def __init__(self, name, width):
        super().__init__()
        net = torchvision.models.get_model(name, weights=None)
        self.stem, self.pool = nn.Sequential(net.conv1, net.bn1, net.relu), net.maxpool
        self.stages = nn.ModuleList([net.layer1, net.layer2, net.layer3, net.layer4])
        sizes = [64] + [64 * 2 ** i * net.layer1[0].expansion for i in range(4)]
        outs = [4 * width, 3 * width, 2 * width, width, width // 2]
        self.ups = nn.ModuleList(Up(i, s, o) for i, s, o in zip([sizes[-1]] + outs, sizes[-2::-1] + [0], outs))
        self.heads = nn.ModuleList(nn.Conv2d(o, 1, 3, padding=1) for o in outs[1:])

    def forward(self, x):
        kept = [self.stem(x)]
        x = self.pool(kept[0])
        for stage in self.stages:
            x = stage(x)
            kept.append(x)
        kept.pop()
        out = []
        for i, up in enumerate(self.ups):
            x = up(x, kept.pop() if kept else None)
            if i:
                out.append(F.softplus(self.heads[i - 1](x)) + 1e-3)
        return out


def loss_of(guess, depth, seen):
    guess = F.interpolate(guess, size=depth.shape[-2:], mode="bilinear", align_corners=False).float()
    difference = guess[seen].log() - depth[seen].log()
    scale_free = (difference.square().mean() - 0.85 * difference.mean().square()).clamp(min=0).sqrt()
    smooth = guess.diff(dim=-1).abs().mean() + guess.diff(dim=-2).abs().mean()
    return scale_free + 0.1 * smooth


a = options(encoder="resnet34", width=64, batch=8, sizes=["192x640", "256x480", "224x512"], bf16=False)
torch.manual_seed(1025)
model = Depth(a.encoder, a.width).to(a.device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 15, 0.1)
for step in range(4):
    h, w = map(int, a.sizes[step % len(a.sizes)].split("x"))
    images, depth = torch.rand(a.batch, 3, h, w).to(a.device), torch.rand(a.batch, 1, h, w).mul(90).sub(30).clamp(min=0).to(a.device)
    seen = (depth > 1e-3) & (depth < 50)
    with torch.autocast(a.device, dtype=torch.bfloat16, enabled=a.bf16):
        guesses = model(images)
    loss = sum(loss_of(g, depth, seen) / 2 ** (len(guesses) - 1 - i) for i, g in enumerate(guesses))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"{step} {h}x{w} loss {loss.item():.4f}")
    memory(step=step)
