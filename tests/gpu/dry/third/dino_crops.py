"""Self-distillation of a ViT: large and small crops, a slow teacher, fp16."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class Block(nn.Module):
    def __init__(self, d, heads, drop_path):
        super().__init__()
        self.heads, self.drop_path = heads, drop_path
        self.n1, self.n2 = nn.LayerNorm(d, eps=1e-6), nn.LayerNorm(d, eps=1e-6)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc1, self.fc2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def keep(self, x):
        if not self.training or self.drop_path == 0:
            return x
        return x / (1 - self.drop_path) * (torch.rand(len(x), 1, 1, device=x.device) >= self.drop_path)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.keep(self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)))
        return x + self.keep(self.fc2(F.gelu(self.fc1(self.n2(x)))))


class ViT(nn.Module):
    def __init__(self, d, depth, heads, image, patch, drop):
        super().__init__()
        self.side, self.embed, self.token = image // patch, nn.Conv2d(3, d, patch, patch), nn.Parameter(torch.zeros(1, 1, d))
        self.places = nn.Parameter(torch.randn(1, d, self.side, self.side) * 0.02)
        self.blocks, self.norm = nn.Sequential(*(Block(d, heads, drop * i / depth) for i in range(depth))), nn.LayerNorm(d)

    def forward(self, x):
        h = self.embed(x)
        places = self.places if h.shape[-1] == self.side else F.interpolate(self.places, size=h.shape[-2:], mode="bicubic", align_corners=False)
        h = (h + places).flatten(2).transpose(1, 2)
        return self.norm(self.blocks(torch.cat([self.token.expand(len(h), -1, -1), h], 1)))[:, 0]


class Head(nn.Module):
    def __init__(self, d, out):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(d, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 256))
        self.last = nn.utils.parametrizations.weight_norm(nn.Linear(256, out, bias=False))
        self.last.parametrizations.weight.original0.data.fill_(1)
        self.last.parametrizations.weight.original0.requires_grad = False

    def forward(self, x):
        return self.last(F.normalize(self.mlp(x), dim=-1))


a = options(d=384, depth=10, heads=6, large=224, small=96, crops=6, batch=16, out=16_384, freeze_steps=1)
torch.manual_seed(1023)
student = nn.ModuleList([ViT(a.d, a.depth, a.heads, a.large, 16, 0.1), Head(a.d, a.out)]).to(a.device)
teacher = nn.ModuleList([ViT(a.d, a.depth, a.heads, a.large, 16, 0.0), Head(a.d, a.out)]).to(a.device)
teacher.load_state_dict(student.state_dict())
teacher.requires_grad_(False)
center = torch.zeros(1, a.out, device=a.device)
optimizer = torch.optim.AdamW([w for w in student.parameters() if w.requires_grad], lr=5e-4, weight_decay=0.04)
scaler = torch.amp.GradScaler(a.device)
for step in range(4):
    large = torch.randn(2 * a.batch, 3, a.large, a.large).to(a.device)
    small = torch.randn(a.crops * a.batch, 3, a.small, a.small).to(a.device)
    with torch.autocast(a.device, dtype=torch.float16):
        with torch.no_grad():
            t = teacher[1](teacher[0](large)).float()
        s = student[1](torch.cat([student[0](large), student[0](small)])).float() / 0.1
        aims = ((t - center) / 0.04).softmax(-1).chunk(2)
        views, terms = s.chunk(2 + a.crops), []
        for i, aim in enumerate(aims):
            terms += [-(aim * v.log_softmax(-1)).sum(-1).mean() for j, v in enumerate(views) if j != i]
        loss = sum(terms) / len(terms)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(student.parameters(), 3.0)
    if step < a.freeze_steps:
        for w in student[1].last.parameters():
            w.grad = None
    scaler.step(optimizer)
    scaler.update()
    with torch.no_grad():
        m = 1 - 0.004 * (math.cos(math.pi * step / 100) + 1) / 2
        for old, new in zip(teacher.parameters(), student.parameters()):
            old.mul_(m).add_(new.detach(), alpha=1 - m)
        center.mul_(0.9).add_(t.mean(0, keepdim=True), alpha=0.1)
    print(f"{step}: loss {loss.item():.4f} momentum {m:.5f}")
    memory(step=step)
