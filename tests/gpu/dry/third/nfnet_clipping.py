"""A network without normalization, gradients clipped unit by unit; fp16 or fp32."""
import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class StandardConv(nn.Conv2d):
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.gain = nn.Parameter(torch.ones(self.out_channels, 1, 1, 1))

    def forward(self, x):
        variance, mean = torch.var_mean(self.weight, dim=(1, 2, 3), keepdim=True, unbiased=False)
        weight = self.gain * (self.weight - mean) * torch.rsqrt(variance * self.weight[0].numel() + 1e-4)
        return self._conv_forward(x, weight, self.bias)


class Excite(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.down, self.up = nn.Linear(c, c // 2), nn.Linear(c // 2, c)

    def forward(self, x):
        return 2 * torch.sigmoid(self.up(F.relu(self.down(x.mean((2, 3))))))[:, :, None, None] * x


class Block(nn.Module):
    def __init__(self, i, o, stride, beta, group=64):
        super().__init__()
        c = o // 2
        self.beta, self.pool = beta, nn.AvgPool2d(2, 2, ceil_mode=True) if stride > 1 else nn.Identity()
        self.short = StandardConv(i, o, 1) if stride > 1 or i != o else None
        self.convs = nn.ModuleList([StandardConv(i, c, 1), StandardConv(c, c, 3, stride, 1, groups=max(1, c // group)),
                                    StandardConv(c, c, 3, 1, 1, groups=max(1, c // group)), StandardConv(c, o, 1)])
        self.excite, self.skip = Excite(o), nn.Parameter(torch.zeros(()))

    def forward(self, x):
        y = F.gelu(x) * 1.7 * self.beta
        short = x if self.short is None else self.short(self.pool(y))
        for k, conv in enumerate(self.convs):
            y = conv(F.gelu(y) * 1.7 if k else y)
        return short + self.excite(y) * 0.2 * self.skip


def network(width, depths, classes):
    layers = [StandardConv(3, width // 4, 3, 2, 1), nn.GELU(), StandardConv(width // 4, width // 2, 3, 1, 1), nn.GELU(), StandardConv(width // 2, width, 3, 2, 1)]
    i, spread = width, 1.0
    for stage, depth in enumerate(depths):
        o = width * (2, 4, 6, 6)[stage]
        for k in range(depth):
            layers.append(Block(i, o, 2 if k == 0 and stage else 1, spread ** -0.5))
            i, spread = o, 1.04 if k == 0 else spread + 0.04
    return nn.Sequential(*layers, StandardConv(i, 2 * i, 1), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(2 * i, classes))


def norms(t):
    return t.norm() if t.ndim <= 1 else t.flatten(1).norm(dim=1).view(-1, *[1] * (t.ndim - 1))


@torch.no_grad()
def clip(weights, factor=0.01):
    for w in weights:
        limit, g = norms(w).clamp(min=1e-3) * factor, norms(w.grad)
        w.grad.copy_(torch.where(g > limit, w.grad * (limit / g.clamp(min=1e-6)), w.grad))


a = options(width=128, depths=[1, 2, 6, 3], batch=38, image=192, half=False)
torch.manual_seed(1020)
torch.backends.cudnn.allow_tf32 = False
layout = torch.channels_last if a.half else torch.contiguous_format
model = network(a.width, a.depths, 1000).to(a.device, memory_format=layout)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=2e-5)
scaler = torch.amp.GradScaler(a.device, enabled=a.half)
for step in range(3):
    x = torch.randn(a.batch, 3, a.image, a.image).to(a.device, memory_format=layout)
    y = torch.randint(0, 1000, (a.batch,)).to(a.device)
    with torch.autocast(a.device, dtype=torch.float16, enabled=a.half):
        loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    clip(list(model.parameters())[:-2])
    scaler.step(optimizer)
    scaler.update()
    print("step", step, "loss", loss.item())
    memory(step=step)
