"""A ViT whose blocks are compiled one by one, an average on the device."""
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn

from kit import memory, options


class Block(nn.Module):
    def __init__(self, d, heads, drop):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.g1, self.g2 = (nn.Parameter(torch.full((d,), 1e-4)) for _ in range(2))
        self.gate, self.value, self.down = nn.Linear(d, 2 * d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def path(self, x):
        if not self.training:
            return x
        keep = torch.empty(x.shape[0], 1, 1, device=x.device, dtype=x.dtype).bernoulli_(1 - self.drop)
        return x * keep / (1 - self.drop)

    def forward(self, x):
        q, k, v = self.qkv(self.n1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.path(self.g1 * self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)))
        h = self.n2(x)
        return x + self.path(self.g2 * self.down(F.silu(self.gate(h)) * self.value(h)))


class ViT(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.patches = nn.Conv2d(3, a.d, a.patch, a.patch)
        self.places = nn.Parameter(torch.randn(1, (a.image // a.patch) ** 2, a.d) * 0.02)
        self.blocks = nn.ModuleList(Block(a.d, a.d // 64, 0.1) for _ in range(a.depth))
        self.norm, self.head = nn.LayerNorm(a.d), nn.Linear(a.d, 1000)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


def main():
    a = options(d=576, depth=9, batch=46, image=208, patch=16)
    torch.manual_seed(1031)
    model = ViT(a).to(a.device)
    average = AveragedModel(model, avg_fn=get_ema_avg_fn(0.99))
    for block in model.blocks:
        block.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, fused=True)
    started = time.time()
    for step in range(4):
        x, y = torch.randn(a.batch, 3, a.image, a.image), torch.randint(0, 1000, (a.batch,))
        with torch.autocast(a.device, dtype=torch.bfloat16):
            logits = model(x.to(a.device))
            loss = F.binary_cross_entropy_with_logits(logits, F.one_hot(y, 1000).to(a.device, logits.dtype))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        average.update_parameters(model)
        print(f"step {step} loss {loss.item():.4f} after {time.time() - started:.1f} s")
        memory(step=step)


main()
